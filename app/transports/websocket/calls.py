"""All WebSocket calls of a server."""

from __future__ import annotations

import asyncio
import secrets

from app.config.settings import ServerSettings
from app.dialogue.ports import SessionHost
from app.errors import StageUnavailable
from app.transports.websocket.call import STOPPING, Socket, SocketCall


class SocketCalls:
    """Carries a call for every WebSocket that it is given."""

    def __init__(self, host: SessionHost, settings: ServerSettings) -> None:
        self._host = host
        self._settings = settings
        self._calls: dict[SocketCall, asyncio.Task[object]] = {}
        self._stopping = False

    @property
    def active(self) -> int:
        """Calls that are open, or being opened."""
        return len(self._calls)

    async def serve(self, socket: Socket) -> None:
        """Carry a call over ``socket`` until it ends, and close it then.

        Raises InvalidRequest, SessionLimit, ResumeExpired, StageUnavailable: no call came about,
        and ``socket`` is still open.
        """
        if self._stopping:
            raise StageUnavailable(STOPPING)
        task = asyncio.current_task()
        assert task is not None
        call = SocketCall(f"call_{secrets.token_urlsafe(16)}", socket, self._settings.connect_timeout_s)
        self._calls[call] = task
        try:
            await call.run(self._host)
        finally:
            del self._calls[call]

    async def close_all(self) -> None:
        """End every call, telling each client that the server goes away, and take no more."""
        self._stopping = True
        for call in list(self._calls):
            call.stop()
        if self._calls:
            await asyncio.wait(list(self._calls.values()))
