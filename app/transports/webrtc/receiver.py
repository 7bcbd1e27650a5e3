"""The one place that reaches into aiortc: the packets of an audio receiver are taken from it, ordered, in time.

aiortc's own jitter buffer adds 60-80 ms and never wins back the 200 ms that a single lost packet costs; its decoder
is a thread per call and its queue of decoded frames has no bound. Here aiortc goes on counting what arrives
(its reports to the sender need that), but the sound goes past it. The names used below are private;
``test_aiortc_internals`` fails when a new version changes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from aiortc import RTCRtpReceiver

from app.transports.webrtc.reorder import Reorderer

_BUFFER = "_RTCRtpReceiver__jitter_buffer"
_DECODER_QUEUE = "_RTCRtpReceiver__decoder_queue"
_HANDLER = "_handle_rtp_packet"


class Packets(Protocol):
    """Who takes the packets of a stream, in order and without those that were lost."""

    def packet(self, payload: bytes, timestamp: int) -> None: ...

    def restart(self) -> None:
        """Another stream begins (a new SSRC): its timestamps start anywhere."""
        ...


class _NothingToDecode:
    """Stands in for aiortc's JitterBuffer: no packet ever completes a frame."""

    def add(self, packet: Any) -> tuple[bool, None]:
        return False, None


def take_packets(receiver: RTCRtpReceiver, packets: Packets, on_packet: Callable[[], None]) -> Callable[[], None]:
    """Hand the packets of an audio ``receiver`` to ``packets`` before media arrives; ``on_packet`` hears of each.

    Returns what must be called when the call ends, so that no timer outlives it.
    """
    if not all(hasattr(receiver, name) for name in (_BUFFER, _DECODER_QUEUE, _HANDLER)):
        raise RuntimeError("aiortc has changed: its audio packets cannot be taken (app/transports/webrtc/receiver.py)")
    loop = asyncio.get_running_loop()
    reorderer: Reorderer[tuple[bytes, int]] = Reorderer()
    count: Callable[[Any, int], Awaitable[None]] = getattr(receiver, _HANDLER)
    alarm: asyncio.TimerHandle | None = None
    source: int | None = None

    def arm() -> None:
        nonlocal alarm
        if alarm is not None:
            alarm.cancel()
        alarm = loop.call_at(reorderer.deadline, ring) if reorderer.deadline is not None else None

    def release(released: list[tuple[bytes, int]]) -> None:
        for payload, timestamp in released:
            packets.packet(payload, timestamp)

    def ring() -> None:
        release(reorderer.expire(loop.time()))
        arm()

    async def handle(packet: Any, arrival_time_ms: int) -> None:
        nonlocal source
        on_packet()
        await count(packet, arrival_time_ms)
        if packet.ssrc != source:
            release(reorderer.restart())
            packets.restart()
            source = packet.ssrc
        release(reorderer.push(packet.sequence_number, (packet.payload, packet.timestamp), loop.time()))
        if alarm is not None or reorderer.deadline is not None:
            arm()

    def stop() -> None:
        if alarm is not None:
            alarm.cancel()

    setattr(receiver, _BUFFER, _NothingToDecode())
    setattr(receiver, _HANDLER, handle)
    getattr(receiver, _DECODER_QUEUE).put(None)  # the decoder's thread ends as soon as it begins
    return stop
