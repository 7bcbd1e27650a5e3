"""A SessionHost that counts what its sessions tell their clients."""

from __future__ import annotations

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

    @property
    def active(self) -> int:
        return self._host.active

    def options(self, given: Any) -> SessionOptions:
        return self._host.options(given)

    async def open(self, send: EventSink, *, transport: str, options: SessionOptions | None = None) -> ConversationPort:
        sink = _CountingSink(send, self._metrics)
        sink.port = await self._host.open(sink, transport=transport, options=options)
        self._metrics.sessions.labels(transport).inc()
        return sink.port

    async def resume(
        self, token: str, send: EventSink, *, transport: str, heard: LastHeard | None = None
    ) -> ConversationPort:
        sink = _CountingSink(send, self._metrics)
        sink.port = await self._host.resume(token, sink, transport=transport, heard=heard)
        return sink.port

    async def end(self, token: str) -> None:
        await self._host.end(token)


class _CountingSink:
    def __init__(self, send: EventSink, metrics: Metrics) -> None:
        self.port: ConversationPort | None = None
        self._send = send
        self._metrics = metrics

    def __call__(self, event: WireEvent) -> None:
        self._metrics.observe(event)
        if event.get("type") == "parley.closed" and event.get("reason") != "replaced" and self.port is not None:
            self._metrics.underruns.inc(self.port.underruns * FRAME_MS / 1000)
        self._send(event)
