"""A SessionHost whose sessions say what the test tells them: for transports, the server and the page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np

from app.audio.frames import OUTPUT_RATE_HZ, Pcm
from app.audio.playout import Playout
from app.dialogue.ports import EventSink, WireEvent
from app.errors import SessionLimit


class ScriptedSession:
    """Keeps what it is given; ``send`` speaks to the client."""

    def __init__(
        self, session_id: str, send: EventSink, on_event: Callable[[ScriptedSession, WireEvent], None]
    ) -> None:
        self.id = session_id
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

    # ConversationPort

    def push_audio(self, pcm: Pcm) -> None:
        self.frames += 1
        self.loudest = max(self.loudest, int(np.abs(pcm.astype(np.int32)).max()))

    def receive(self, event: WireEvent) -> None:
        if event["type"] == "parley.ping":
            self.send("parley.pong", id=event.get("id"))
            return
        self.received.append(event)
        self._on_event(self, event)

    async def close(self, reason: str) -> None:
        if self.close_reason is None:
            self.close_reason = reason
            self.send("parley.closed", reason=reason)
            self._closed.set()

    async def wait_closed(self) -> None:
        await self._closed.wait()


class ScriptedHost:
    """Opens ScriptedSessions; ``on_event`` sees every client event but the heartbeat."""

    def __init__(
        self,
        *,
        limit: int = 8,
        on_event: Callable[[ScriptedSession, WireEvent], None] = lambda session, event: None,
    ) -> None:
        self.limit = limit
        self.on_event = on_event
        self.sessions: list[ScriptedSession] = []

    @property
    def active(self) -> int:
        return sum(session.close_reason is None for session in self.sessions)

    async def open(self, send: EventSink, *, transport: str) -> ScriptedSession:
        if self.active >= self.limit:
            raise SessionLimit(f"All {self.limit} sessions are in use (server.max_sessions); try again later.")
        session = ScriptedSession(f"s_{len(self.sessions)}", send, lambda s, e: self.on_event(s, e))
        self.sessions.append(session)
        session.send("session.created", session={"id": session.id, "model": "test", "voice": "test", "language": "en"})
        session.state("listening")
        return session
