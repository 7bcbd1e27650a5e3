"""Who speaks in the benchmark: synthetic voices that say the same samples each time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from app.audio.frames import INPUT_RATE_HZ, Pcm
from app.audio.resample import resample
from app.bench.turns.sounds import at_level, to_pcm, trimmed
from app.errors import ModelError

Voice: TypeAlias = Literal["woman", "low", "man"]
"""Hibari; Hibari a few semitones lower, which is another person for a listener; Piper."""

SPEECH_RMS = 2600.0
"""Of all speech while it sounds: -22 dBFS, a headset at arm's length."""
_LOWER = 0.84
"""Played this much slower, after being said that much faster."""
_SEED = 1


class Speakers:
    """Says a text in a voice. ``piper`` is an .onnx voice; without one Hibari's low voice stands in for the man."""

    def __init__(self, piper: Path | None) -> None:
        self._hibari: Any = _hibari()
        self._piper: Callable[[str], Pcm] | None = _piper(piper) if piper is not None else None
        self._say = lru_cache(maxsize=256)(self._spoken)

    @property
    def has_man(self) -> bool:
        return self._piper is not None

    def say(self, text: str, voice: Voice) -> Pcm:
        """Speech at ``SPEECH_RMS``, int16 ``[n]`` at 16 kHz, its first and last samples those of what is said."""
        return self._say(text, voice).copy()

    def _spoken(self, text: str, voice: Voice) -> Pcm:
        if voice == "man" and self._piper is not None:
            sound = self._piper(text)
        elif voice == "woman":
            sound = self._by_hibari(text, 1.0)
        else:
            sound = self._by_hibari(text, _LOWER)
        return at_level(trimmed(sound), SPEECH_RMS)

    def _by_hibari(self, text: str, pitch: float) -> Pcm:
        wave = np.asarray(self._hibari(text, speed=1.0 / pitch, seed=_SEED), np.float32)
        return resample(to_pcm(wave), round(self._hibari.sample_rate * pitch), INPUT_RATE_HZ)


def _hibari() -> Any:
    try:
        from hibari import Hibari
    except ImportError as error:
        raise ModelError(f"hibari-tts cannot be imported ({error}); run: pip install hibari-tts") from error
    return Hibari()


def _piper(path: Path) -> Callable[[str], Pcm] | None:
    try:
        from piper import PiperVoice, SynthesisConfig
    except ImportError:  # an extra of its own (GPL)
        return None
    voice: Any = PiperVoice.load(path)
    # Without the noise in its durations and sound a sentence is the same each time.
    config = SynthesisConfig(noise_scale=0.0, noise_w_scale=0.0, volume=0.7)

    def say(text: str) -> Pcm:
        sound = np.concatenate([chunk.audio_int16_array for chunk in voice.synthesize(text, config)])
        return resample(sound, int(voice.config.sample_rate), INPUT_RATE_HZ)

    return say
