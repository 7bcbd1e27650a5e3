"""What the server needs of whoever carries the calls."""

from __future__ import annotations

from typing import Protocol

from app.transports.answer import Answer


class CallService(Protocol):
    """Answers offers and keeps the calls. All methods belong on the server's event loop."""

    async def offer(self, sdp: str, type: str) -> Answer:
        """Open a call. Raises InvalidRequest (the SDP cannot be used), SessionLimit, Overloaded."""
        ...

    async def hang_up(self, call_id: str) -> object:
        """End a call; an unknown or ended one is not an error."""
        ...

    async def close_all(self) -> None:
        """End every call, telling each client that the server goes away."""
        ...


__all__ = ["Answer", "CallService"]
