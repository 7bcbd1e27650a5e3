"""A SessionHost that counts what its sessions tell their clients."""

from __future__ import annotations

from app.audio.frames import FRAME_MS
from app.dialogue.ports import ConversationPort, EventSink, SessionHost, WireEvent
from app.telemetry.metrics import Metrics


class MeteredHost:
    """Wraps a SessionHost; give this one to the transports."""

    def __init__(self, host: SessionHost, metrics: Metrics) -> None:
        self._host = host
        self._metrics = metrics

    @property
    def active(self) -> int:
        return self._host.active

    async def open(self, send: EventSink, *, transport: str) -> ConversationPort:
        session: ConversationPort | None = None

        def send_counted(event: WireEvent) -> None:
            self._metrics.observe(event)
            if event.get("type") == "parley.closed" and session is not None:
                self._metrics.underruns.inc(session.playout.underruns * FRAME_MS / 1000)
            send(event)

        session = await self._host.open(send_counted, transport=transport)
        self._metrics.sessions.labels(transport).inc()
        return session
