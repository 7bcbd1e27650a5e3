"""Where a session meets the world: what a transport may call, and what it must offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from app.audio.frames import Pcm
from app.dialogue.options import SessionOptions

WireEvent: TypeAlias = Mapping[str, Any]
"""A JSON object with a ``type``; names and fields are listed in docs/events.md."""


@dataclass(frozen=True, slots=True)
class LastHeard:
    """The last ``parley.heard`` that a client got before it lost the connection."""

    reply_id: str
    chars: int


class EventSink(Protocol):
    """How a session tells its client something. Must not block and must not raise."""

    def __call__(self, event: WireEvent) -> None: ...


class ConversationPort(Protocol):
    """One transport's seat in a running session. All calls belong on the session's event loop.

    Once another transport has taken the session over, or this one has left it, calls do nothing.
    """

    @property
    def id(self) -> str: ...

    @property
    def resume_token(self) -> str:
        """Opens this session, and no other, to a transport that comes back. A secret of its client."""
        ...

    @property
    def replaced(self) -> bool:
        """Another transport has taken the session over."""
        ...

    @property
    def underruns(self) -> int:
        """Frames of a reply in mid-speech for which no sound was ready: audible gaps."""
        ...

    def push_audio(self, pcm: Pcm) -> None:
        """What the user says: 16 kHz mono int16, one 20 ms frame (320 samples) a call. Never blocks."""
        ...

    def pull_audio(self, count: int) -> Pcm:
        """The next ``count`` samples of what the assistant says, int16 ``[count]`` at 48 kHz, silence where there is
        nothing. The transport pulls at its own clock, and what it pulls counts as heard."""
        ...

    def receive(self, event: WireEvent) -> None:
        """A client event (docs/events.md). Malformed ones are answered by an ``error`` event. Never blocks."""
        ...

    async def close(self, reason: str) -> None:
        """End the session and free all it holds. Idempotent, and safe under cancellation."""
        ...

    async def leave(self) -> None:
        """The client was lost: the session waits ``server.resume_s`` for it to come back. Idempotent."""
        ...

    async def wait_closed(self) -> None:
        """Return once the session has ended, whoever ended it, or this seat has been left or taken."""
        ...


class SessionHost(Protocol):
    """Opens sessions; the server and the microphone are given one of these."""

    async def open(self, send: EventSink, *, transport: str, options: SessionOptions | None = None) -> ConversationPort:
        """Start a session whose events go to ``send``. Raises SessionLimit."""
        ...

    async def resume(
        self, token: str, send: EventSink, *, transport: str, heard: LastHeard | None = None
    ) -> ConversationPort:
        """Take up a session again. Whoever has it still is told that it was ``replaced``. Raises ResumeExpired."""
        ...

    async def end(self, token: str) -> None:
        """Its client hangs up a session that it has lost; one that is not there is no error."""
        ...

    def options(self, given: Any) -> SessionOptions:
        """What a client asks for (a session object, docs/events.md). Raises InvalidRequest naming the key."""
        ...

    @property
    def active(self) -> int:
        """How many sessions are open."""
        ...
