"""Real speech at 16 kHz: Hibari's voice, and recordings in nine languages."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path

import numpy as np

from app.audio.frames import Pcm
from app.audio.resample import resample
from app.audio.wav import read_wav
from tests.kit.sounds import pcm


@lru_cache(maxsize=1)
def _voice():
    from hibari import Hibari

    return Hibari()


@lru_cache(maxsize=64)
def say(text: str) -> Pcm:
    """``text`` in English. The same array each time: copy before changing it."""
    voice = _voice()
    wave = np.asarray(voice(text, seed=1), np.float32)
    return resample(pcm(wave / 32768 if np.abs(wave).max() > 2 else wave), voice.sample_rate, 16_000)


@lru_cache(maxsize=1)
def _piper():
    from piper import PiperVoice

    from app.catalog import model_path
    from app.config import load_settings

    root = Path(__file__).resolve().parents[2]
    store = load_settings(root / "config.toml", environment={}).runtime.model_store
    return PiperVoice.load(next(model_path("piper-joe", store, kind="tts").glob("*.onnx")))


@lru_cache(maxsize=64)
def say_piper(text: str) -> Pcm:
    """As ``say``, in another voice, of a man, without the chance that Piper puts into its speech: a test that hears
    something else each time fails now and then. The model must be in the store (fixture ``store``)."""
    from piper import SynthesisConfig

    voice = _piper()
    even = SynthesisConfig(noise_scale=0.0, noise_w_scale=0.0)
    sound = np.concatenate([chunk.audio_int16_array for chunk in voice.synthesize(text, even)])
    return resample((sound * 0.5).astype(np.int16), int(voice.config.sample_rate), 16_000)


def recording(name: str) -> Pcm:
    """For example ``en/hello_world``; its words lie beside it in a .txt file."""
    spec = importlib.util.find_spec("pytest_audioeval")
    assert spec
    assert spec.submodule_search_locations
    return read_wav(Path(spec.submodule_search_locations[0]) / "samples" / "audio" / f"{name}.wav")


def sounding(sound: Pcm, floor: int = 300) -> tuple[int, int]:
    """First and last sample above ``floor``."""
    loud = np.flatnonzero(np.abs(sound.astype(np.int32)) > floor)
    return int(loud[0]), int(loud[-1]) + 1
