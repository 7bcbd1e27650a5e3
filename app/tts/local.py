"""What all voices that run in this process have in common: load, warm up, speak on a pool, close."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass

from app.audio.frames import Pcm
from app.config.settings import RuntimeSettings, TtsSettings
from app.telemetry.memory import resident_mb
from app.telemetry.stage import StageReport
from app.tts.base import SPEEDS, known_voice
from app.tts.pool import VoicePool

_WARM_UP = "Warming up the voice, with a number: 42."


@dataclass(frozen=True, slots=True)
class Opened:
    """What a backend has once it is open."""

    detail: str
    """It in a few words."""
    voices: tuple[str, ...]
    default_voice: str
    speeds: tuple[float, float] = SPEEDS


class LocalSynthesizer(ABC):
    """Voices whose synthesis blocks. Subclasses say how to open them and how to speak one clause."""

    def __init__(self, name: str, settings: TtsSettings, runtime: RuntimeSettings) -> None:
        self._settings = settings
        self._pool = VoicePool(name, self._speak, threads=runtime.tts_threads or 1, max_waiting=settings.max_waiting)
        self._opened = Opened("", (), "")

    @property
    @abstractmethod
    def rate_hz(self) -> int:
        """Sample rate of the voices; known once they are open."""

    @abstractmethod
    def _open(self) -> Opened:
        """Load the default voice (blocking). Raises ModelError."""

    @abstractmethod
    def _speak(self, text: str, voice: str, speed: float) -> Iterable[Pcm]:
        """The sound of one clause in chunks (blocking, on several threads at once); ``voice`` is a known one."""

    @property
    def voices(self) -> tuple[str, ...]:
        return self._opened.voices

    @property
    def default_voice(self) -> str:
        return self._opened.default_voice

    @property
    def speeds(self) -> tuple[float, float]:
        return self._opened.speeds

    async def load(self) -> StageReport:
        began, memory = time.perf_counter(), resident_mb()
        self._opened = await self._pool.call(self._open)
        loaded = time.perf_counter()
        # The first call is many times slower than the next, and may take longer than a clause is given.
        async for _ in self._pool.stream(_WARM_UP, self.default_voice, self._settings.speed):
            pass
        warm = time.perf_counter()
        return StageReport("TTS", self._opened.detail, loaded - began, warm - loaded, resident_mb() - memory)

    def synthesize(
        self, text: str, *, slack_s: float = 0.0, voice: str = "", speed: float | None = None
    ) -> AsyncGenerator[Pcm, None]:
        name = known_voice(voice, self.voices, self.default_voice)
        slowest, fastest = self.speeds
        wanted = min(fastest, max(slowest, self._settings.speed if speed is None else speed))
        return self._pool.stream(text, name, wanted, slack_s=slack_s, timeout_s=self._settings.timeout_s)

    async def close(self) -> None:
        await self._pool.close()
