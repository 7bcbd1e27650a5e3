"""Opens sessions, counts them, and ends them all when the process does."""

from __future__ import annotations

import asyncio
import logging
import secrets

from app.config import Settings
from app.dialogue.ports import EventSink
from app.dialogue.session import Session
from app.dialogue.stages import Stages
from app.errors import SessionLimit
from app.telemetry.log import log_event

_log = logging.getLogger("parley.session")


class Host:
    """Implements SessionHost over one set of stages."""

    def __init__(self, stages: Stages, settings: Settings) -> None:
        self.stages = stages
        self._settings = settings
        self._sessions: dict[str, Session] = {}
        self._watchers: set[asyncio.Task[None]] = set()

    @property
    def active(self) -> int:
        return len(self._sessions)

    async def open(self, send: EventSink, *, transport: str) -> Session:
        limit = self._settings.server.max_sessions
        if len(self._sessions) >= limit:
            raise SessionLimit(f"All {limit} sessions are in use (server.max_sessions). Try again in a moment.")
        session = Session(f"sess_{secrets.token_hex(8)}", self.stages, self._settings, send)
        self._sessions[session.id] = session
        watcher = asyncio.get_running_loop().create_task(self._watch(session))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        await session.started()
        log_event(_log, "session_opened", session=session.id, transport=transport, active=self.active)
        return session

    async def close(self) -> None:
        """End all sessions."""
        await asyncio.gather(*(session.close("server_stopping") for session in list(self._sessions.values())))
        await asyncio.gather(*self._watchers)

    async def _watch(self, session: Session) -> None:
        try:
            await session.wait_closed()
        finally:
            self._sessions.pop(session.id, None)
            log_event(_log, "session_closed", session=session.id, active=self.active)
