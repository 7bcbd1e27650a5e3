"""A transport's place in a session, which another transport may take."""

from __future__ import annotations

import asyncio

import numpy as np

from app.audio.frames import Pcm
from app.dialogue.ports import EventSink, LastHeard, WireEvent
from app.dialogue.session import Session


class Seat:
    """Implements ConversationPort. ``session`` is for those who look at more than a transport may."""

    def __init__(self, session: Session, send: EventSink) -> None:
        self.session = session
        self.replaced = False
        self._send = send
        self._gone = asyncio.Event()

    @property
    def id(self) -> str:
        return self.session.id

    @property
    def resume_token(self) -> str:
        return self.session.resume_token

    @property
    def underruns(self) -> int:
        return self.session.playout.underruns

    @property
    def taken(self) -> bool:
        """It is this one that the session talks to."""
        return not self._gone.is_set()

    def push_audio(self, pcm: Pcm) -> None:
        if self.taken:
            self.session.push_audio(pcm)

    def pull_audio(self, count: int) -> Pcm:
        return self.session.playout.read(count) if self.taken else np.zeros(count, np.int16)

    def receive(self, event: WireEvent) -> None:
        if self.taken:
            self.session.receive(event)

    async def close(self, reason: str) -> None:
        if self.taken:
            await self.session.close(reason)

    async def leave(self) -> None:
        if self.taken:
            self._gone.set()
            await self.session.leave()

    async def wait_closed(self) -> None:
        gone = asyncio.ensure_future(self._gone.wait())
        closed = asyncio.ensure_future(self.session.wait_closed())
        try:
            await asyncio.wait({gone, closed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            closed.cancel()

    def take_over(self, send: EventSink, heard: LastHeard | None) -> Seat:
        """The seat of a client that comes back; this one is given up."""
        if self.taken:
            self.replaced = True
            self._gone.set()
            self._send({"type": "parley.closed", "event_id": "event_replaced", "reason": "replaced"})
        seat = Seat(self.session, send)
        self.session.take_up(send, heard)
        return seat
