"""Hibari: small English voices that run many times faster than real time on one core (24 kHz)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.audio.frames import Pcm
from app.config.settings import RuntimeSettings, TtsSettings
from app.errors import ModelError
from app.tts.local import LocalSynthesizer
from app.tts.pool import pause_ms, to_pcm, trim_silence

_RATE_HZ = 24_000
_SEED = 0
"""Of the noise in the voice: the same words sound the same each time."""


class HibariSynthesizer(LocalSynthesizer):
    """Voices of the ``hibari`` package. Only those that are on this machine: nothing is downloaded."""

    def __init__(self, settings: TtsSettings, runtime: RuntimeSettings, model_folder: Path | None = None) -> None:
        super().__init__("hibari", settings, runtime)
        self._voice: Any = None

    @property
    def rate_hz(self) -> int:
        return _RATE_HZ

    def _open(self) -> str:
        try:
            from hibari import Hibari
            from hibari.voices import DEFAULT, VOICES
        except ImportError as error:
            raise ModelError(f"hibari-tts cannot be imported ({error}); run: pip install hibari-tts") from error
        name = self._settings.voice or DEFAULT
        present = [voice for voice in VOICES if _is_present(voice)]
        if name not in present:
            known = "is known to Hibari but not on this machine" if name in VOICES else "is unknown to Hibari"
            raise ModelError(f"tts.voice {name!r} {known}; available here: {', '.join(present)}.")
        self._voice = Hibari(voice=name)
        self._voice.phonemize("ready")  # builds the pronunciation tables now rather than in the first sentence
        return f"Hibari, voice {name}, 24 kHz, cpu"

    def _speak(self, text: str) -> Iterator[Pcm]:
        for sound in self._voice.stream(text, speed=self._settings.speed, seed=_SEED):
            yield trim_silence(to_pcm(sound), _RATE_HZ, tail_ms=pause_ms(text))


def _is_present(voice: str) -> bool:
    """Whether the voice's file is on this machine, without letting the package fetch it."""
    from hibari.voices import voice_path

    try:
        return Path(voice_path(voice, download_missing=False)).exists()
    except FileNotFoundError:
        return False
