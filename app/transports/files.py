"""A conversation from sound files: they are spoken at real time, and what comes back is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.audio.frames import FRAME_MS, INPUT_FRAME, OUTPUT_FRAME, Pcm
from app.dialogue.ports import ConversationPort, SessionHost, WireEvent
from app.dialogue.wire import parse
from app.errors import StageTimeout

_REPLY_TIMEOUT_S = 60.0
"""For one whole turn. Every stage has a shorter deadline of its own, so this only guards the guards."""
_NOTHING_HEARD_S = 3.0
"""A session that has listened for this long without a word to us since the file ended makes no turn of it."""


@dataclass(frozen=True, slots=True)
class FileTurn:
    """What one question led to. ``reply_pcm`` is int16 ``[n]`` at 48 kHz, silence before the reply left out.

    ``status`` is that of the reply, or "unanswered" (nothing was heard, or nothing that wants an answer), "refused"
    (``errors`` says why), or "closed" (the session ended before there was a reply).
    """

    user: str
    reply: str
    status: str
    reply_pcm: Pcm
    timings_ms: dict[str, float] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


class FileConversation:
    """One session whose microphone is a file. Use as an async context manager.

    A turn of which the session makes nothing is given up ``nothing_heard_s`` seconds after its end; no pause in which
    the session still waits for more may be as long.
    """

    def __init__(
        self,
        host: SessionHost,
        on_event: Callable[[WireEvent], None] = lambda event: None,
        *,
        nothing_heard_s: float = _NOTHING_HEARD_S,
    ) -> None:
        self._host = host
        self._on_event = on_event
        self._nothing_heard_s = nothing_heard_s
        self._active_at = 0.0
        """When something last went either way, by the loop's clock."""
        self._events: list[dict[str, Any]] = []
        self._outgoing: list[Pcm] = []
        self._incoming: list[Pcm] = []
        self._changed = asyncio.Event()

    async def __aenter__(self) -> FileConversation:
        self.session: ConversationPort = await self._host.open(self._take, transport="files")
        self._clock = asyncio.get_running_loop().create_task(self._run_clock())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._clock.cancel()
        await asyncio.gather(self._clock, return_exceptions=True)
        await self.session.close("done")

    @property
    def closed(self) -> str:
        """Why the session has ended by itself; empty while it goes on."""
        reasons = (event["reason"] for event in self._events if event["type"] == "parley.closed")
        return str(next(reasons, ""))

    async def greeting(self) -> Pcm:
        """Wait until the greeting, if there is one, has been spoken; its sound."""
        await self._settled(0)
        return self._take_sound()

    async def speak(self, pcm: Pcm) -> FileTurn:
        """Say ``pcm`` (int16, 16 kHz), wait for the answer and listen to its end. Raises StageTimeout."""
        seen = len(self._events)
        padding = -len(pcm) % INPUT_FRAME
        padded = np.pad(pcm, (0, padding))
        self._outgoing = [padded[start : start + INPUT_FRAME] for start in range(0, len(padded), INPUT_FRAME)]
        return await self._turn(seen)

    async def type(self, text: str) -> FileTurn:
        """Write ``text`` instead of saying it."""
        seen = len(self._events)
        self.session.receive(_typed(text))
        if not self._refused(seen):  # or what was said before would be answered once more
            self.session.receive({"type": "response.create"})
        return await self._turn(seen)

    async def _turn(self, seen: int) -> FileTurn:
        self._take_sound()
        await self._settled(seen)
        self._outgoing = []
        events = self._events[seen:]
        last = {event["type"]: event for event in events}
        status = "refused" if self._refused(seen) else "closed" if self.closed else "unanswered"
        done = last.get("response.done", {"response": {"status": status}})
        return FileTurn(
            user=" ".join(event["transcript"] for event in events if event["type"].endswith("transcription.completed")),
            reply=last.get("response.output_audio_transcript.done", {}).get("transcript", ""),
            status=done["response"]["status"],
            reply_pcm=self._take_sound(),
            timings_ms=last.get("parley.turn", {}).get("timings_ms", {}),
            usage=done["response"].get("usage") or {},
            notices=tuple(event["text"] for event in events if event["type"] == "parley.notice"),
            errors=tuple(event["error"]["message"] for event in events if event["type"] == "error"),
        )

    async def _settled(self, seen: int) -> None:
        """Until everything has been said that was going to be: the file is over and the session listens again."""
        self._active_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(_REPLY_TIMEOUT_S + len(self._outgoing) * FRAME_MS / 1000):
                while not self.closed and (self._outgoing or not self._quiet(seen)):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise StageTimeout(f"The session did not finish the turn within {_REPLY_TIMEOUT_S:.0f} s.") from None

    def _quiet(self, seen: int) -> bool:
        states = [event["state"] for event in self._events if event["type"] == "parley.state"]
        settled = seen == 0 or any(
            event["type"] in ("response.done", "conversation.item.input_audio_transcription.failed")
            for event in self._events[seen:]
        )
        silent_s = asyncio.get_running_loop().time() - self._active_at
        listening = bool(states) and states[-1] == "listening"
        return self._refused(seen) or (listening and (settled or silent_s > self._nothing_heard_s))

    def _refused(self, seen: int) -> bool:
        """Whether the session would not take what was sent."""
        errors = [event["error"] for event in self._events[seen:] if event["type"] == "error"]
        return any(error["type"] == "invalid_request_error" for error in errors)

    def _take(self, event: WireEvent) -> None:
        self._events.append(dict(event))
        self._active_at = asyncio.get_running_loop().time()
        self._on_event(event)
        self._changed.set()

    def _take_sound(self) -> Pcm:
        sound = np.concatenate(self._incoming) if self._incoming else np.zeros(0, np.int16)
        self._incoming.clear()
        voiced = np.flatnonzero(sound)
        return sound[voiced[0] : voiced[-1] + 1] if len(voiced) else sound[:0]

    async def _run_clock(self) -> None:
        silence = np.zeros(INPUT_FRAME, np.int16)
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            if self._outgoing:
                self._active_at = loop.time()
            self.session.push_audio(self._outgoing.pop(0) if self._outgoing else silence)
            self._incoming.append(self.session.pull_audio(OUTPUT_FRAME))
            if not self._outgoing:
                self._changed.set()
            due += FRAME_MS / 1000
            await asyncio.sleep(due - loop.time())


def check_typed(text: str) -> None:
    """Raises InvalidRequest, in the session's own words, for what no session takes."""
    parse(_typed(text))


def _typed(text: str) -> WireEvent:
    content = [{"type": "input_text", "text": text}]
    return {"type": "conversation.item.create", "item": {"type": "message", "role": "user", "content": content}}
