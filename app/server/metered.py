"""A SessionHost that counts what its sessions tell their clients."""

from __future__ import annotations

import asyncio
from typing import Any

from app.audio.frames import FRAME_MS
from app.dialogue.options import SessionOptions
from app.dialogue.ports import ConversationPort, EventSink, LastHeard, SessionHost, WireEvent
from app.telemetry.metrics import Metrics


class MeteredHost:
    """Wraps a SessionHost; give this one to the transports."""

    def __init__(self, host: SessionHost, metrics: Metrics) -> None:
        self._host = host
        self._metrics = metrics
        self._following: set[asyncio.Task[None]] = set()

    @property
    def active(self) -> int:
        return self._host.active

    def options(self, given: Any) -> SessionOptions:
        return self._host.options(given)

    async def open(self, send: EventSink, *, transport: str, options: SessionOptions | None = None) -> ConversationPort:
        port = await self._host.open(self._counting(send), transport=transport, options=options)
        self._metrics.sessions.labels(transport).inc()
        return self._followed(port)

    async def resume(
        self, token: str, send: EventSink, *, transport: str, heard: LastHeard | None = None
    ) -> ConversationPort:
        port = await self._host.resume(token, self._counting(send), transport=transport, heard=heard)
        return self._followed(port)

    async def end(self, token: str) -> None:
        await self._host.end(token)

    def _counting(self, send: EventSink) -> EventSink:
        def sink(event: WireEvent) -> None:
            self._metrics.observe(event)
            send(event)

        return sink

    def _followed(self, port: ConversationPort) -> ConversationPort:
        task = asyncio.get_running_loop().create_task(self._follow(port), name=f"count {port.id}")
        self._following.add(task)
        task.add_done_callback(self._following.discard)
        return port

    async def _follow(self, port: ConversationPort) -> None:
        """A session may have several ports one after the other, and its last client may be lost before it ends."""
        before = port.underruns
        await port.wait_closed()
        self._metrics.underruns.inc((port.underruns - before) * FRAME_MS / 1000)
