"""A SessionHost whose sessions say what the test tells them: for transports, the server and the page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np

from app.audio.frames import OUTPUT_RATE_HZ, Pcm
from app.audio.playout import Playout
from app.config import Settings
from app.dialogue.options import SessionOptions, parse_options
from app.dialogue.ports import EventSink, LastHeard, WireEvent
from app.errors import InvalidRequest, ResumeExpired, SessionLimit

VOICES = ("test", "other")


class ScriptedSession:
    """Keeps what it is given; ``send`` speaks to the client. ``history`` is what one that comes back is told."""

    def __init__(
        self,
        session_id: str,
        send: EventSink,
        on_event: Callable[[ScriptedSession, WireEvent], None],
        settings: Settings,
        options: SessionOptions,
    ) -> None:
        self.id = session_id
        self.resume_token = f"token of {session_id}"
        self.settings = settings
        self.options = options
        self.history: list[dict[str, Any]] = []
        self.heard: LastHeard | None = None
        self.left = False
        self.playout = Playout()
        self.received: list[WireEvent] = []
        self.frames = 0
        self.loudest = 0
        self.close_reason: str | None = None
        self.silent = False
        self._send = send
        self._on_event = on_event
        self._closed = asyncio.Event()
        self._generation = 0

    def send(self, type: str, **fields: Any) -> None:
        """Nothing goes out while ``silent`` is set: a server that hangs."""
        if self.silent:
            return
        self._send({"type": type, "event_id": "event_1", **fields})

    def state(self, name: str) -> None:
        self.send("parley.state", state=name)

    def user_says(self, item_id: str, words: str) -> None:
        self.send("input_audio_buffer.speech_started", item_id=item_id, audio_start_ms=0)
        self.send(
            "conversation.item.input_audio_transcription.completed", item_id=item_id, transcript=words, language="en"
        )

    def reply(self, response_id: str, *deltas: str, heard: int | None = None) -> None:
        """Begin a reply of ``deltas``, of which the first ``heard`` characters were played."""
        self.send("response.created", response={"id": response_id, "status": "in_progress"})
        self.state("speaking")
        ids = {"response_id": response_id, "item_id": f"item_{response_id}"}
        for delta in deltas:
            self.send("response.output_audio_transcript.delta", **ids, delta=delta)
        if heard is not None:
            self.send("parley.heard", **ids, chars=heard)

    def reply_over(self, response_id: str, heard_text: str, status: str = "completed") -> None:
        ids = {"response_id": response_id, "item_id": f"item_{response_id}"}
        self.send("response.output_audio_transcript.done", **ids, transcript=heard_text)
        self.send("response.done", response={"id": response_id, "status": status, "usage": {}})
        self.state("listening")

    def turn(self, response_id: str, *, early_ms: float = 0.0, wasted: int = 0, **timings_ms: float) -> None:
        early = {"ms": early_ms, "wasted_tokens": wasted}
        self.send("parley.turn", item_id="u", response_id=response_id, timings_ms=timings_ms, early=early, usage={})

    def play_tone(self, hz: float = 440.0, seconds: float = 1.0) -> None:
        times = np.arange(int(seconds * OUTPUT_RATE_HZ)) / OUTPUT_RATE_HZ
        self._generation += 1
        self.playout.begin(self._generation)
        self.playout.write(self._generation, (8000 * np.sin(2 * np.pi * hz * times)).astype(np.int16))
        self.playout.finish(self._generation)

    def created(self, *, resumed: bool = False) -> None:
        resume = {"token": self.resume_token, "keep_s": self.settings.server.resume_s}
        session = {"id": self.id, **self.options.described(self.settings, VOICES[0]), "resume": resume}
        self.send("session.created", session={**session, "resumed": resumed})

    def take_up(self, send: EventSink, heard: LastHeard | None) -> None:
        self._send, self.heard, self.left = send, heard, False
        self.created(resumed=True)
        self.send("parley.history", items=self.history)
        self.state("listening")

    # What a seat passes on

    def push_audio(self, pcm: Pcm) -> None:
        self.frames += 1
        self.loudest = max(self.loudest, int(np.abs(pcm.astype(np.int32)).max()))

    def receive(self, event: WireEvent) -> None:
        if event["type"] == "parley.ping":
            self.send("parley.pong", id=event.get("id"))
            return
        self.received.append(event)
        if event["type"] == "session.update":
            self._update(event)
        if event["type"] == "parley.recording":
            self.send("parley.recording", on=event["on"])
        self._on_event(self, event)

    def _update(self, event: WireEvent) -> None:
        try:
            self.options = parse_options(event.get("session"), self.settings, VOICES, self.options)
        except InvalidRequest as error:
            fields = {"type": "invalid_request_error", "code": error.code, "message": str(error)}
            self.send("error", error={**fields, "event_id": event.get("event_id")})
        else:
            self.send("session.updated", session={"id": self.id, **self.options.described(self.settings, VOICES[0])})

    async def close(self, reason: str) -> None:
        if self.close_reason is None:
            self.close_reason = reason
            self.send("parley.closed", reason=reason)
            self._closed.set()

    async def wait_closed(self) -> None:
        await self._closed.wait()


class ScriptedSeat:
    """A ConversationPort over a ScriptedSession."""

    def __init__(self, session: ScriptedSession) -> None:
        self.session = session
        self.id = session.id
        self.resume_token = session.resume_token
        self.replaced = False
        self.underruns = 0
        self.gone = asyncio.Event()

    def push_audio(self, pcm: Pcm) -> None:
        if not self.gone.is_set():
            self.session.push_audio(pcm)

    def pull_audio(self, count: int) -> Pcm:
        return np.zeros(count, np.int16) if self.gone.is_set() else self.session.playout.read(count)

    def receive(self, event: WireEvent) -> None:
        if not self.gone.is_set():
            self.session.receive(event)

    async def close(self, reason: str) -> None:
        if not self.gone.is_set():
            await self.session.close(reason)

    async def leave(self) -> None:
        if not self.gone.is_set():
            self.gone.set()
            self.session.left = True
            if not self.session.settings.server.resume_s:
                await self.session.close("connection_lost")

    async def wait_closed(self) -> None:
        gone, closed = asyncio.ensure_future(self.gone.wait()), asyncio.ensure_future(self.session.wait_closed())
        try:
            await asyncio.wait({gone, closed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            closed.cancel()


class ScriptedHost:
    """Opens ScriptedSessions; ``on_event`` sees every client event but the heartbeat."""

    def __init__(
        self,
        *,
        limit: int = 8,
        on_event: Callable[[ScriptedSession, WireEvent], None] = lambda session, event: None,
        settings: Settings | None = None,
    ) -> None:
        self.limit = limit
        self.on_event = on_event
        self.settings = settings or Settings()
        self.sessions: list[ScriptedSession] = []
        self._seats: dict[str, tuple[ScriptedSeat, EventSink]] = {}

    @property
    def active(self) -> int:
        return sum(session.close_reason is None for session in self.sessions)

    def options(self, given: Any) -> SessionOptions:
        return parse_options(given, self.settings, VOICES)

    async def open(self, send: EventSink, *, transport: str, options: SessionOptions | None = None) -> ScriptedSeat:
        if self.active >= self.limit:
            raise SessionLimit(f"All {self.limit} sessions are in use (server.max_sessions); try again later.")
        session_id = f"s_{len(self.sessions)}"
        session = ScriptedSession(
            session_id, send, lambda s, e: self.on_event(s, e), self.settings, options or SessionOptions()
        )
        self.sessions.append(session)
        session.created()
        session.state("listening")
        return self._seat(session, send)

    async def resume(
        self, token: str, send: EventSink, *, transport: str, heard: LastHeard | None = None
    ) -> ScriptedSeat:
        before, old = self._seats.get(token, (None, None))
        if before is None or old is None or before.session.close_reason is not None:
            raise ResumeExpired("That call is over: begin a new one.")
        if not before.gone.is_set():
            before.replaced = True
            before.gone.set()
            old({"type": "parley.closed", "event_id": "event_1", "reason": "replaced"})
        before.session.take_up(send, heard)
        return self._seat(before.session, send)

    async def lose(self, session: ScriptedSession) -> None:
        """Whoever is in ``session`` loses the connection; the session waits."""
        seat, _ = self._seats[session.resume_token]
        await seat.leave()

    async def end(self, token: str) -> None:
        seat, _ = self._seats.get(token, (None, None))
        if seat is not None:
            await seat.session.close("hung_up")

    def _seat(self, session: ScriptedSession, send: EventSink) -> ScriptedSeat:
        seat = ScriptedSeat(session)
        self._seats[session.resume_token] = (seat, send)
        return seat
