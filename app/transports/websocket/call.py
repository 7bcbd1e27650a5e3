"""One call over a WebSocket: the session it carries, and whatever may end either."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from app.audio.frames import OUTPUT_FRAME, OUTPUT_RATE_HZ
from app.audio.resample import Resampler
from app.dialogue.ports import ConversationPort, SessionHost, WireEvent
from app.errors import InvalidRequest, StageUnavailable
from app.telemetry.log import log_event
from app.transports.beat import Beat
from app.transports.events import MESSAGE_LIMIT, EventReader, parse, refusal
from app.transports.start import Start, read_start, take_seat
from app.transports.websocket.inbound import Inbound
from app.transports.websocket.outbox import Outbox

_log = logging.getLogger("parley.calls")

WIRE_RATE_HZ = 24_000
"""Of the sound to the client: half the bytes of 48 kHz, which TCP carries without compression."""
_SILENT_S = 15.0
"""A client that has sent neither sound nor an event, or has taken nothing, for this long is gone."""
_CHECK_S = 1.0
_FAREWELL_S = 1.0
"""For the last events to leave before the connection is closed."""
_CLOSE_TIMEOUT_S = 5.0
STOPPING = "The server is stopping; call again once it is back."
_FIRST = 'The first message must be {"type": "parley.start"}, as text.'

NORMAL, INTERNAL_ERROR, RESTARTING = 1000, 1011, 1012
"""RFC 6455, section 7.4.1, and IANA's registry; ours, above 4000, are 4000 plus the status that /offer would have."""
TIMED_OUT, REPLACED = 4408, 4409


class SocketClosed(Exception):
    """The client has closed the connection with ``code``, or it broke (1006)."""

    def __init__(self, code: int) -> None:
        super().__init__(f"closed with {code}")
        self.code = code


class Socket(Protocol):
    """A WebSocket that is open. ``receive`` and ``send`` raise SocketClosed once it no longer is."""

    async def receive(self) -> str | bytes: ...

    async def send(self, message: str | bytes) -> None:
        """Waits while the network does not take what was sent before."""
        ...

    async def close(self, code: int, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class _End:
    reason: str
    code: int
    """What the client's WebSocket is closed with."""
    leaves: bool = False
    """The session waits for its client to come back."""


class SocketCall:
    """``run`` carries it from the first message to the end."""

    def __init__(self, call_id: str, socket: Socket, connect_timeout_s: float) -> None:
        self.id = call_id
        self._socket = socket
        self._connect_timeout_s = connect_timeout_s
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[_End] = self._loop.create_future()
        self._outbox = Outbox(lambda: self._ends(_End("client_too_slow", TIMED_OUT, leaves=True)))
        self._seen = self._taken = self._loop.time()

    async def run(self, host: SessionHost) -> None:
        """Return once the call is over and everything it held is free. Raises SessionLimit, ResumeExpired,
        InvalidRequest; the connection is the caller's to close then."""
        start = await self._first_message()
        if start is None:
            return
        self._seat: ConversationPort = await take_seat(host, start, self._outbox.put, transport="websocket")
        self._seen = self._taken = self._loop.time()
        inbound = Inbound(self._seat.push_audio, self._broken)
        tasks = [
            self._loop.create_task(self._guarded(work), name=f"{name} {self.id}")
            for name, work in {
                "hear": self._hear(inbound),
                "speak": self._speak(),
                "tell": self._outbox.run(self._send),
                "watch": self._watch(),
                "follow": self._follow_session(),
            }.items()
        ]
        end = _End("server_stopping", RESTARTING)
        try:
            end = await self._end
        finally:
            inbound.stop()
            farewell = self._loop.create_task(self._finish(end, tasks), name=f"close {self.id}")
            await asyncio.shield(farewell)

    def stop(self) -> None:
        """End the call because the server goes away; ``run`` returns soon after."""
        self._ends(_End("server_stopping", RESTARTING))

    def _ends(self, end: _End) -> None:
        if not self._end.done():
            self._end.set_result(end)

    async def _first_message(self) -> Start | None:
        """None if the call is over before it began."""
        receiving = self._loop.create_task(self._socket.receive())
        try:
            first: set[asyncio.Future[Any]] = {receiving, self._end}
            await asyncio.wait(first, timeout=self._connect_timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if self._end.done():
                raise StageUnavailable(STOPPING)
            if not receiving.done():
                raise InvalidRequest(f"No parley.start came within {self._connect_timeout_s:.0f} s.")
            message = receiving.result()
        except SocketClosed:
            return None
        finally:
            receiving.cancel()
        try:
            event = parse(message) if isinstance(message, str) and len(message) <= MESSAGE_LIMIT else None
        except ValueError:
            event = None
        if not isinstance(event, dict) or event.get("type") != "parley.start":
            raise InvalidRequest(_FIRST)
        return read_start(event)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except SocketClosed as closed:
            self._client_closed(closed.code)
        except Exception as error:  # a call that has lost one of its halves must not look alive
            self._broken(error)

    def _client_closed(self, code: int) -> None:
        if code == NORMAL:
            self._ends(_End("hung_up", NORMAL))
        elif code == RESTARTING:
            self.stop()
        else:
            self._ends(_End("connection_closed", NORMAL, leaves=True))

    def _broken(self, error: Exception) -> None:
        log_event(_log, "call_failed", level=logging.ERROR, error=error, call=self.id)
        self._ends(_End("internal_error", INTERNAL_ERROR))

    async def _hear(self, inbound: Inbound) -> None:
        def receive(event: WireEvent) -> None:
            if event.get("type") == "input_audio_buffer.commit":  # over TCP all sound before it is here
                inbound.flush()
            self._seat.receive(event)

        reader = EventReader(receive, self._outbox.put)
        while True:
            message = await self._socket.receive()
            self._seen = self._loop.time()
            if isinstance(message, str):
                reader.read(message)
                await asyncio.sleep(0)  # thousands may lie in one packet, and others have calls too
            elif len(message) % 2:
                self._outbox.put(refusal("invalid_request", "Sound is s16le: a message has an even number of bytes."))
            else:
                inbound.push(message)

    async def _speak(self) -> None:
        """What leaves here counts as heard, so nothing is taken from the session that the network does not take."""
        beat, resampler = Beat(), Resampler(OUTPUT_RATE_HZ, WIRE_RATE_HZ)
        while True:
            await beat.next()
            await self._send(resampler.process(self._seat.pull_audio(OUTPUT_FRAME)).astype("<i2").tobytes())

    async def _send(self, message: str | bytes) -> None:
        try:
            await self._socket.send(message)
        except SocketClosed:
            await self._end  # only who receives learns the code with which the client closed
        self._taken = self._loop.time()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_S)
            now = self._loop.time()
            if now - self._seen > _SILENT_S:
                self._ends(_End("client_gone", TIMED_OUT, leaves=True))
            elif now - self._taken > _SILENT_S:
                self._ends(_End("client_too_slow", TIMED_OUT, leaves=True))

    async def _follow_session(self) -> None:
        await self._seat.wait_closed()
        self._ends(_End("replaced", REPLACED, leaves=True) if self._seat.replaced else _End("session_ended", NORMAL))

    async def _finish(self, end: _End, tasks: list[asyncio.Task[None]]) -> None:
        log_event(_log, "call_closed", call=self.id, session=self._seat.id, reason=end.reason)
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await (self._seat.leave() if end.leaves else self._seat.close(end.reason))
        except Exception as error:  # the connection must be freed whatever the session does
            log_event(_log, "session_close_failed", level=logging.ERROR, error=error, session=self._seat.id)
        with contextlib.suppress(TimeoutError, SocketClosed):
            async with asyncio.timeout(_FAREWELL_S):
                await self._outbox.sent()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(TimeoutError, SocketClosed):
            async with asyncio.timeout(_FAREWELL_S):
                await self._socket.close(end.code, end.reason)
