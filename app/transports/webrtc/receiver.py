"""The one place that reaches into aiortc: its audio jitter buffer is replaced, its queues are bounded.

aiortc's own buffer adds 60-80 ms and never wins back the 200 ms that a single lost packet costs. Here
packets are ordered before aiortc sees them, and its buffer only passes them on. The names used
below are private; ``test_aiortc_internals`` fails when a new version changes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiortc import MediaStreamTrack, RTCRtpReceiver
from aiortc.jitterbuffer import JitterFrame

from app.transports.webrtc.reorder import Reorderer

_BUFFER = "_RTCRtpReceiver__jitter_buffer"
_HANDLER = "_handle_rtp_packet"
QUEUED_FRAMES = 50
"""Decoded frames that may wait for us: 1 s. Beyond that the oldest go."""


class NewestQueue(asyncio.Queue[Any]):
    """A bounded queue that drops its oldest entry for a new one; putting never waits."""

    async def put(self, item: Any) -> None:
        if self.full():
            self.get_nowait()
        self.put_nowait(item)


class _PassOn:
    """Stands in for aiortc's JitterBuffer: each packet is one Opus frame and leaves as it comes."""

    def add(self, packet: Any) -> tuple[bool, JitterFrame]:
        return False, JitterFrame(packet._data, packet.timestamp)


def bound_track(track: MediaStreamTrack, frames: int) -> None:
    """Let at most ``frames`` decoded frames wait in ``track``; must be called before media arrives."""
    track._queue = NewestQueue(frames)  # type: ignore[attr-defined]


def waiting_frames(track: MediaStreamTrack) -> int:
    """How many decoded frames wait to be read."""
    return int(track._queue.qsize())  # type: ignore[attr-defined]


def replace_jitter_buffer(receiver: RTCRtpReceiver, on_packet: Callable[[], None]) -> Callable[[], None]:
    """Order the packets of an audio ``receiver`` ourselves; ``on_packet`` is told of each arrival.

    Returns what must be called when the call ends, so that no timer outlives it.
    """
    if not hasattr(receiver, _BUFFER) or not hasattr(receiver, _HANDLER):
        raise RuntimeError("aiortc has changed: its audio jitter buffer cannot be replaced (app/transports/webrtc)")
    loop = asyncio.get_running_loop()
    reorderer: Reorderer[tuple[Any, int]] = Reorderer()
    hand_on: Callable[[Any, int], Awaitable[None]] = getattr(receiver, _HANDLER)
    alarm: asyncio.TimerHandle | None = None
    tasks: set[asyncio.Task[None]] = set()

    async def release(packets: list[tuple[Any, int]]) -> None:
        for packet, arrival_ms in packets:
            await hand_on(packet, arrival_ms)

    def arm() -> None:
        nonlocal alarm
        if alarm is not None:
            alarm.cancel()
        alarm = loop.call_at(reorderer.deadline, ring) if reorderer.deadline is not None else None

    def ring() -> None:
        task = loop.create_task(release(reorderer.expire(loop.time())))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        arm()

    source: int | None = None

    async def handle(packet: Any, arrival_time_ms: int) -> None:
        nonlocal source
        on_packet()
        released = reorderer.restart() if packet.ssrc != source else []
        source = packet.ssrc
        released += reorderer.push(packet.sequence_number, (packet, arrival_time_ms), loop.time())
        arm()
        await release(released)

    def stop() -> None:
        nonlocal alarm
        if alarm is not None:
            alarm.cancel()
            alarm = None
        for task in list(tasks):
            task.cancel()

    setattr(receiver, _BUFFER, _PassOn())
    setattr(receiver, _HANDLER, handle)
    return stop
