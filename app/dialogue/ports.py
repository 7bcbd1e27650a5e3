"""Where a session meets the world: what a transport may call, and what it must offer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from app.audio.frames import Pcm
from app.audio.playout import Playout

WireEvent: TypeAlias = Mapping[str, Any]
"""A JSON object with a ``type``; names and fields are listed in docs/events.md."""


class EventSink(Protocol):
    """How a session tells its client something. Must not block and must not raise."""

    def __call__(self, event: WireEvent) -> None: ...


class ConversationPort(Protocol):
    """A running session as a transport sees it. All calls belong on the session's event loop."""

    @property
    def id(self) -> str: ...

    @property
    def playout(self) -> Playout:
        """The transport pulls what the assistant says from here, at its own clock."""
        ...

    def push_audio(self, pcm: Pcm) -> None:
        """What the user says: 16 kHz mono int16, one 20 ms frame (320 samples) a call. Never blocks."""
        ...

    def receive(self, event: WireEvent) -> None:
        """A client event (docs/events.md). Malformed ones are answered by an ``error`` event. Never blocks."""
        ...

    async def close(self, reason: str) -> None:
        """End the session and free all it holds. Idempotent, and safe under cancellation."""
        ...

    async def wait_closed(self) -> None:
        """Return once the session has ended, whoever ended it."""
        ...


class SessionHost(Protocol):
    """Opens sessions; the server and the microphone are given one of these."""

    async def open(self, send: EventSink, *, transport: str) -> ConversationPort:
        """Start a session whose events go to ``send``. Raises SessionLimit."""
        ...

    @property
    def active(self) -> int:
        """How many sessions are open."""
        ...
