"""What every voice offers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Protocol

from app.audio.frames import Pcm
from app.errors import StageError
from app.telemetry.stage import StageReport

SPEEDS = (0.5, 2.0)
"""Slowest and fastest speech that may be asked for; 1 is the voice's own."""


class Synthesizer(Protocol):
    """Turns one clause of speakable text into sound. Safe to call from many sessions at once."""

    @property
    def rate_hz(self) -> int:
        """Sample rate of what ``synthesize`` yields, the same for all voices; fixed once loaded."""
        ...

    @property
    def voices(self) -> tuple[str, ...]:
        """Names that ``synthesize`` takes, at least one; known once loaded."""
        ...

    @property
    def default_voice(self) -> str:
        """The one of ``voices`` that speaks when none is named."""
        ...

    @property
    def speeds(self) -> tuple[float, float]:
        """Slowest and fastest that this backend can; both 1 where speech has one speed only."""
        ...

    async def load(self) -> StageReport:
        """Load and warm up with dummy work; raises ModelError when the voice cannot be used."""
        ...

    def synthesize(
        self, text: str, *, slack_s: float = 0.0, voice: str = "", speed: float | None = None
    ) -> AsyncGenerator[Pcm, None]:
        """Yield the sound of ``text`` in chunks (int16 ``[n]``, ``rate_hz``), the first as soon as may be.

        ``slack_s`` is how long the listener still has something to hear: among clauses that wait, the one that would
        be missed first is spoken first. 0 is for those that are waited for in silence. ``voice`` is one of
        ``voices``, "" the default one; ``speed`` None that of the settings, and brought within ``speeds``.
        Closing the generator cancels what has not been computed yet. Text without anything
        speakable yields nothing. Raises StageError, also for an unknown voice.
        """
        ...

    async def close(self) -> None: ...


def known_voice(name: str, voices: Iterable[str], default: str) -> str:
    """``name``, or ``default`` for ""; raises StageError with what there is."""
    if not name:
        return default
    if name not in voices:
        raise StageError(f"There is no voice {name!r}; available: {', '.join(voices)}.")
    return name
