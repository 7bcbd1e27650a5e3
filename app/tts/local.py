"""What all voices that run in this process have in common: load, warm up, speak on a pool, close."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable

from app.audio.frames import Pcm
from app.config.settings import RuntimeSettings, TtsSettings
from app.telemetry.memory import resident_mb
from app.telemetry.stage import StageReport
from app.tts.pool import VoicePool

_WARM_UP = "Warming up the voice, with a number: 42."


class LocalSynthesizer(ABC):
    """A voice whose synthesis blocks. Subclasses say how to open it and how to speak one clause."""

    def __init__(self, name: str, settings: TtsSettings, runtime: RuntimeSettings) -> None:
        self._settings = settings
        self._pool = VoicePool(name, self._speak, threads=runtime.tts_threads or 1, max_waiting=settings.max_waiting)

    @property
    @abstractmethod
    def rate_hz(self) -> int:
        """Sample rate of the voice; known once it is open."""

    @abstractmethod
    def _open(self) -> str:
        """Load the voice (blocking) and describe it in a few words. Raises ModelError."""

    @abstractmethod
    def _speak(self, text: str) -> Iterable[Pcm]:
        """The sound of one clause in chunks (blocking)."""

    async def load(self) -> StageReport:
        began, memory = time.perf_counter(), resident_mb()
        detail = await self._pool.call(self._open)
        loaded = time.perf_counter()
        async for _ in self._pool.stream(_WARM_UP):  # the first call is many times slower than the next
            pass
        return StageReport("TTS", detail, loaded - began, time.perf_counter() - loaded, resident_mb() - memory)

    def synthesize(self, text: str, *, slack_s: float = 0.0) -> AsyncGenerator[Pcm, None]:
        return self._pool.stream(text, slack_s=slack_s, timeout_s=self._settings.timeout_s)

    async def close(self) -> None:
        await self._pool.close()
