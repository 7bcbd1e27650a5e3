"""One reply on its way to a client, as a stream of events or as one object, and what happens when the client leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.errors import ParleyError
from app.llm import Finished, LlmEvent, TextDelta, ToolCall
from app.server.openai.errors import ApiError, api_error, shutting_down
from app.server.openai.shapes import Shape, event
from app.telemetry.log import log_event

_log = logging.getLogger("parley.server")

SEND_TIMEOUT_S = 60.0
"""A client that does not read for this long is dropped; what it has not read is bounded before (see app/llm/local.py)."""

CLIENT_GONE = 499
"""What the metrics call a request whose client did not wait."""

_SUPERSEDED = ApiError(
    400,
    "A newer request of the same session took the place of this one.",
    code="request_superseded",
    param="session_id",
)


class Reply(Response):
    """Sends what ``events`` yields. The status waits for the first event, so that a refusal has the right one."""

    def __init__(
        self,
        events: AsyncGenerator[LlmEvent, None],
        shape: Shape,
        *,
        stream: bool,
        one_call: bool,
        on_end: Callable[[int], None],
    ) -> None:
        """``on_end`` is told the status once, also where it could only be sent inside the stream."""
        self._events = events
        self._shape = shape
        self._stream = stream
        self._one_call = one_call
        self._on_end = on_end
        self._started = False
        self._sends = 0
        """Counts the beginnings and the ends of writes: odd while one waits for the client to read."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Cancels the work within a step of the client's leaving, whatever phase it is in."""
        working = asyncio.create_task(self._answer(scope, receive, send), name="api-reply")
        watching = asyncio.create_task(_until_gone(receive), name="api-watch")
        status = CLIENT_GONE
        try:
            await self._first_of(working, watching)
            if working.done():
                status = working.result()
        except asyncio.CancelledError:
            # The server goes away: end the work, tell the client, then obey.
            await _end(working)
            await self._fail(shutting_down(), scope, receive, send)
            status = 503
            raise
        finally:
            await _end(working)
            await _end(watching)
            self._on_end(status)

    async def _first_of(self, working: asyncio.Task[int], watching: asyncio.Task[None]) -> None:
        """Until the work is done, the client gone, or one write has waited for it from one look to the next.

        A look now and then, because a deadline for each write would cost more than all else that is done for it.
        """
        done: set[asyncio.Task[int] | asyncio.Task[None]] = set()
        stuck_at = 0
        while not done and (not stuck_at or stuck_at != self._sends):
            stuck_at = self._sends if self._sends % 2 else 0
            done, _ = await asyncio.wait(
                (working, watching), timeout=SEND_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
            )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Returns the status that the request deserved."""
        try:
            async with aclosing(self._events) as events:
                if self._stream:
                    await self._send_stream(events, send)
                else:
                    await self._send_whole(events, send)
        except Exception as error:
            if not isinstance(error, ParleyError):
                log_event(_log, "request_failed", level=logging.ERROR, error=error, path=scope["path"])
            refusal = api_error(error, self._shape.input_param)
            await self._fail(refusal, scope, receive, send)
            return refusal.status
        return 200

    async def _send_stream(self, events: AsyncGenerator[LlmEvent, None], send: Send) -> None:
        shape, calls = self._shape, 0
        async for happened in events:
            match happened:
                case TextDelta():
                    data = shape.delta(happened)
                case ToolCall():
                    if calls and self._one_call:
                        continue
                    data = shape.call(calls, happened)
                    calls += 1
                case Finished():
                    if happened.reason == "cancelled":
                        raise _SUPERSEDED
                    data = shape.closing(happened, calls)
            if not self._started:
                await self._start(send)
                data = shape.opening() + data
            self._sends += 1
            await send({"type": "http.response.body", "body": data, "more_body": True})
            self._sends += 1
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_whole(self, events: AsyncGenerator[LlmEvent, None], send: Send) -> None:
        deltas: list[TextDelta] = []
        calls: list[ToolCall] = []
        async for happened in events:
            match happened:
                case TextDelta():
                    deltas.append(happened)
                case ToolCall():
                    if not (calls and self._one_call):
                        calls.append(happened)
                case Finished():
                    if happened.reason == "cancelled":
                        raise _SUPERSEDED
                    body = self._shape.whole(deltas, calls, happened)
        length = (b"content-length", str(len(body)).encode())
        await self._start(send, (b"content-type", b"application/json"), length)
        self._sends += 1
        await send({"type": "http.response.body", "body": body, "more_body": False})
        self._sends += 1

    async def _start(self, send: Send, *headers: tuple[bytes, bytes]) -> None:
        """No-transform and no buffering: a proxy that gathers events would undo the streaming."""
        if not headers:
            headers = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no"))
        every = ((b"cache-control", b"no-store"), (b"x-request-id", self._shape.id.encode()))
        await send({"type": "http.response.start", "status": 200, "headers": [*headers, *every]})
        self._started = True

    async def _fail(self, error: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
        """As a response of its own, or as the last event of a stream that has begun."""
        if not self._started:
            await error.response({"x-request-id": self._shape.id})(scope, receive, send)
        elif self._stream:
            await send({"type": "http.response.body", "body": event(error.body), "more_body": False})


async def _until_gone(receive: Receive) -> None:
    """Returns when the client has closed its connection; the body has been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(task: asyncio.Task[object]) -> None:
    task.cancel()
    await asyncio.wait((task,))
