"""The layer outside all others: ends the requests that still run when the server goes away, each told why."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.server.replies import error_response

_RETRY_S = 5.0


class Ending:
    """Knows the tasks that answer a request. Streams tell their own clients when they are cancelled; what has sent
    nothing yet is answered here. A cancellation goes no further: the protocol would log it as a failure."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running: set[asyncio.Task[object]] = set()
        self._ended = False

    def end(self) -> None:
        """Cancel every request that runs."""
        self._ended = True
        for task in self._running:
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = complete = False

        async def send_until_complete(message: Message) -> None:
            """A reply that ended just as it was cancelled would tell its client twice."""
            nonlocal started, complete
            if complete:
                return
            started = True
            complete = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            await self._app(scope, receive, send_until_complete)
        except asyncio.CancelledError:
            if not self._ended:
                raise
            if not started:
                message = "The server is shutting down: try again in a moment."
                refusal = error_response(503, "shutting_down", message, retry_after_s=_RETRY_S)
                with suppress(asyncio.CancelledError):
                    await refusal(scope, receive, send)
        finally:
            self._running.discard(task)
