"""Hibari: small English voices that run many times faster than real time on one core (24 kHz)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.audio.frames import Pcm
from app.config.settings import RuntimeSettings, TtsSettings
from app.errors import ModelError
from app.tts.local import LocalSynthesizer, Opened
from app.tts.pool import pause_ms, to_pcm, trim_silence

_RATE_HZ = 24_000
_SEED = 0
"""Of the noise in the voice: the same words sound the same each time."""
_MAX_OTHERS = 4
"""Voices besides the default one that stay loaded: some 20 MiB each, and 70 more for what the first of another accent
needs to pronounce its words. Another takes a fraction of a second to load."""


class HibariSynthesizer(LocalSynthesizer):
    """Voices of the ``hibari`` package. Only those that are on this machine: nothing is downloaded."""

    def __init__(self, settings: TtsSettings, runtime: RuntimeSettings, model_folder: Path | None = None) -> None:
        super().__init__("hibari", settings, runtime)
        self._default: Any = None
        self._others: OrderedDict[str, Any] = OrderedDict()  # the one not used for longest first
        self._lock = threading.Lock()  # of _others

    @property
    def rate_hz(self) -> int:
        return _RATE_HZ

    def _open(self) -> Opened:
        try:
            from hibari import Hibari
            from hibari.voices import DEFAULT, VOICES
        except ImportError as error:
            raise ModelError(f"hibari-tts cannot be imported ({error}); run: pip install hibari-tts") from error
        name = self._settings.voice or DEFAULT
        present = tuple(voice for voice in VOICES if _is_present(voice))
        if name not in present:
            known = "is unknown to Hibari"
            if name in VOICES:
                known = f"is not on this machine yet (`hibari --voice {name} Hello` fetches it)"
            raise ModelError(f"tts.voice {name!r} {known}; available here: {', '.join(present)}.")
        self._default = Hibari(voice=name)
        self._default.phonemize("ready")  # builds the pronunciation tables now rather than in the first sentence
        return Opened(f"Hibari, voice {name}, 24 kHz, cpu", present, name)

    def _speak(self, text: str, voice: str, speed: float) -> Iterator[Pcm]:
        for sound in self._voice(voice).stream(text, speed=speed, seed=_SEED):
            yield trim_silence(to_pcm(sound), _RATE_HZ, tail_ms=pause_ms(text))

    def _voice(self, name: str) -> Any:
        """The loaded voice; another than the default one is loaded when it is first wanted."""
        if name == self.default_voice:
            return self._default
        with self._lock:
            if name in self._others:
                self._others.move_to_end(name)
                return self._others[name]
            tables = next((other.g2p for other in (self._default, *self._others.values()) if _alike(other, name)), None)
        # Not under the lock: clauses in voices that are there already need not wait for this one.
        from hibari import Hibari

        loaded = Hibari(voice=name, g2p=tables)
        with self._lock:
            self._others[name] = loaded
            self._others.move_to_end(name)
            while len(self._others) > _MAX_OTHERS:
                self._others.popitem(last=False)
        return loaded


def _alike(loaded: Any, name: str) -> bool:
    """Whether a loaded voice pronounces as ``name`` does, so that they can share their tables (20 MB)."""
    from hibari.voices import VOICES

    return bool(VOICES[loaded.voice]["british"] == VOICES[name]["british"])


def _is_present(voice: str) -> bool:
    """Whether the voice's file is on this machine, without letting the package fetch it."""
    from hibari.voices import voice_path

    try:
        return Path(voice_path(voice, download_missing=False)).exists()
    except FileNotFoundError:
        return False
