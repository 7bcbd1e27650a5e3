"""What the server needs of whoever carries the calls."""

from __future__ import annotations

from typing import Protocol

from app.transports.answer import Answer
from app.transports.start import AFRESH, Start


class CallService(Protocol):
    """Answers offers and keeps the calls. All methods belong on the server's event loop."""

    async def offer(self, sdp: str, type: str, start: Start = AFRESH) -> Answer:
        """Open a call. Raises InvalidRequest (the SDP, or what ``start`` asks for, cannot be used), SessionLimit,
        ResumeExpired, Overloaded."""
        ...

    async def hang_up(self, call_id: str, *, leave: bool = False) -> object:
        """End a call, and its session unless the client means to come back. An unknown or ended one is no error."""
        ...

    async def close_all(self) -> None:
        """End every call, telling each client that the server goes away."""
        ...


__all__ = ["Answer", "CallService"]
