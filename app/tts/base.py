"""What every voice offers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from app.audio.frames import Pcm
from app.telemetry.stage import StageReport


class Synthesizer(Protocol):
    """Turns one clause of speakable text into sound. Safe to call from many sessions at once."""

    @property
    def rate_hz(self) -> int:
        """Sample rate of what ``synthesize`` yields; fixed once loaded."""
        ...

    async def load(self) -> StageReport:
        """Load and warm up with dummy work; raises ModelError when the voice cannot be used."""
        ...

    def synthesize(self, text: str, *, slack_s: float = 0.0) -> AsyncGenerator[Pcm, None]:
        """Yield the sound of ``text`` in chunks (int16 ``[n]``, ``rate_hz``), the first as soon as may be.

        ``slack_s`` is how long the listener still has something to hear: among clauses that wait, the one that would
        be missed first is spoken first. 0 is for those that are waited for in silence.
        Closing the generator cancels what has not been computed yet. Text without anything
        speakable yields nothing. Raises StageError.
        """
        ...

    async def close(self) -> None: ...
