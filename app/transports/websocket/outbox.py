"""Events on their way to a WebSocket: in order, none left out, and never more than a bound of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from app.dialogue.ports import WireEvent
from app.transports.events import BACKLOG_LIMIT, encode


class Outbox:
    """``put`` never waits; ``run`` sends what was put. A client that is ``BACKLOG_LIMIT`` bytes behind is told
    nothing more, and ``overflowed`` is called once: after a gap the rest would only mislead."""

    def __init__(self, overflowed: Callable[[], None]) -> None:
        self._overflowed = overflowed
        self._waiting: deque[str] = deque()
        self._bytes = 0
        self._something = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._closed = False

    def put(self, event: WireEvent) -> None:
        """An EventSink."""
        if self._closed:
            return
        text = encode(event)
        if self._bytes + len(text) > BACKLOG_LIMIT:
            self._closed = True
            self._overflowed()
            return
        self._waiting.append(text)
        self._bytes += len(text)
        self._something.set()
        self._empty.clear()

    async def run(self, send: Callable[[str], Awaitable[None]]) -> None:
        """Hand everything to ``send`` as it comes, until that raises."""
        while True:
            await self._something.wait()
            while self._waiting:
                await send(self._waiting[0])
                self._bytes -= len(self._waiting.popleft())
            self._something.clear()
            self._empty.set()

    async def sent(self) -> None:
        """Return once nothing waits any more."""
        await self._empty.wait()
