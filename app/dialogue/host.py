"""Opens sessions, counts them, and ends them all when the process does."""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import Any

from app.config import Settings
from app.dialogue.options import SessionOptions, parse_options
from app.dialogue.ports import EventSink, LastHeard
from app.dialogue.seat import Seat
from app.dialogue.session import Session
from app.dialogue.stages import Stages
from app.errors import ResumeExpired, SessionLimit
from app.telemetry.log import log_event
from app.telemetry.turns import KeptTurns

_log = logging.getLogger("parley.session")


class Host:
    """Implements SessionHost over one set of stages."""

    def __init__(self, stages: Stages, settings: Settings) -> None:
        self.stages = stages
        self._settings = settings
        self.turns = KeptTurns(settings.server.saved_turns_mb)
        """The latest of all sessions, those that have ended included."""
        self._seats: dict[str, Seat] = {}
        """By resume token."""
        self._watchers: set[asyncio.Task[None]] = set()

    @property
    def active(self) -> int:
        return len(self._seats)

    def options(self, given: Any) -> SessionOptions:
        return parse_options(given, self._settings, self.stages.tts.voices, languages=self.stages.asr.languages)

    async def open(self, send: EventSink, *, transport: str, options: SessionOptions | None = None) -> Seat:
        await self._make_room()
        options = options or SessionOptions()
        session = Session(f"sess_{secrets.token_hex(8)}", self.stages, self._settings, send, options, kept=self.turns)
        seat = self._seats[session.resume_token] = Seat(session, send)
        watcher = asyncio.get_running_loop().create_task(self._watch(session))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        await session.started()
        log_event(_log, "session_opened", session=session.id, transport=transport, active=self.active)
        return seat

    async def resume(self, token: str, send: EventSink, *, transport: str, heard: LastHeard | None = None) -> Seat:
        before = self._seats.get(token)
        # Without resume_s nobody is waited for, and taking over would end the call for who is in it.
        if before is None or before.session.state.closed or not self._settings.server.resume_s:
            raise ResumeExpired("That call is over, or was left for longer than server.resume_s: begin a new one.")
        seat = self._seats[token] = before.take_over(send, heard)
        log_event(_log, "session_resumed", session=seat.id, transport=transport)
        return seat

    async def end(self, token: str) -> None:
        if (seat := self._seats.get(token)) is not None:
            await seat.session.close("hung_up")

    async def _make_room(self) -> None:
        """Whoever is there goes before those who may come back: the session left longest ago makes way."""
        limit = self._settings.server.max_sessions
        while len(self._seats) >= limit:  # while one makes way, others may take its place
            left = [seat.session for seat in self._seats.values() if not seat.taken]
            if not left:
                raise SessionLimit(f"All {limit} sessions are in use (server.max_sessions). Try again in a moment.")
            oldest = min(left, key=lambda session: session.left_at or 0.0)
            await oldest.close("made_way")
            self._seats.pop(oldest.resume_token, None)

    async def close(self) -> None:
        """End all sessions."""
        await asyncio.gather(
            *(session.close("server_stopping") for session in [seat.session for seat in self._seats.values()])
        )
        await asyncio.gather(*self._watchers)

    async def _watch(self, session: Session) -> None:
        try:
            await session.wait_closed()
        finally:
            self._seats.pop(session.resume_token, None)
            log_event(_log, "session_closed", session=session.id, active=self.active)
