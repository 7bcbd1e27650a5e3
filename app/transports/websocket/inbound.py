"""From messages of sound of any size to 20 ms frames at a clock that never stops.

TCP loses nothing: after a stall all that was said meanwhile arrives at once, seconds late, while the session has
long heard silence in its place. Only the newest of it is still worth hearing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import numpy as np

from app.audio.framer import Framer
from app.audio.frames import FRAME_MS, INPUT_FRAME, INPUT_RATE_HZ, Pcm

_FRAME_S = FRAME_MS / 1000
_PATIENCE_S = 0.25
"""Longest wait for sound before time goes on with silence: TCP needs 200 ms and a round trip to notice and repair the
loss of a last packet (RFC 6298 with Linux's lower bound), and a busy page pauses as long."""
_STOOD_STILL_S = 0.02
"""A timer that fires later than this shows that our own loop stood still, and sound may lie unread."""
_MAX_GAP_S = 1.0
"""Silence for a pause of our own; a longer one (a sleeping machine) is not worth replaying."""
_CATCH_UP = INPUT_RATE_HZ * 200 // 1000
"""Samples that may come later than they were said; of more the oldest are dropped."""
_CALM_S = 0.06
"""Sound comes late for as long as it comes faster than it can be spoken, looked at over this time."""
_CALM = INPUT_RATE_HZ * 80 // 1000
"""Samples that come in ``_CALM_S`` from a client that is on time: its own frames may be of 20 ms or more."""


class Inbound:
    """Gives ``take`` a frame (int16 ``[320]``, 16 kHz) for every 20 ms that pass, from the first sound until ``stop``.

    Whatever ``take`` raises ends it and is told to ``failed``. All calls belong on one event loop; none blocks.
    """

    def __init__(self, take: Callable[[Pcm], None], failed: Callable[[Exception], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._take = take
        self._failed = failed
        self._framer = Framer()
        self._known_until = 0.0
        """The moment up to which the session has got sound, or silence in its place."""
        self._alarm: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._late: deque[Pcm] | None = None
        """Sound that came late, while more of it may follow; None as long as it comes in time."""
        self._late_samples = 0
        self._arrivals: deque[tuple[float, int]] = deque()
        self._stopped = False
        self.dropped = 0
        """Samples that came too late to be heard."""

    def push(self, data: bytes) -> None:
        """Sound as it arrives: s16le, 16 kHz, mono, whole samples."""
        if self._stopped or not data:
            return
        pcm = np.frombuffer(data, "<i2").astype(np.int16, copy=False)
        now = self._loop.time()
        if self._alarm is None:  # before the first sound there is no clock to keep going
            self._known_until = now
            self._ring_at(now + _PATIENCE_S)
        if self._late is None and self._known_until - now > _CATCH_UP / INPUT_RATE_HZ:
            self._late = deque()
        if self._late is not None:
            self._hold(pcm, now)
        else:
            self._known_until = max(self._known_until, now - _PATIENCE_S) + len(pcm) / INPUT_RATE_HZ
            self._emit(pcm)

    def flush(self) -> None:
        """Hear at once what is held back: the client says that there is no more of it."""
        if self._late:
            self._release(self._loop.time())

    def stop(self) -> None:
        """Give no more frames."""
        self._stopped = True
        if self._alarm is not None:
            self._alarm.cancel()

    def _hold(self, pcm: Pcm, now: float) -> None:
        assert self._late is not None
        self._arrivals.append((now, len(pcm)))
        self._late.append(pcm)
        self._late_samples += len(pcm)
        while (excess := self._late_samples - max(_CATCH_UP + _CALM, len(pcm))) > 0:
            oldest = self._late.popleft()
            if len(oldest) > excess:
                self._late.appendleft(oldest[excess:])
            gone = min(excess, len(oldest))
            self._late_samples -= gone
            self.dropped += gone

    def _ring_at(self, when: float) -> None:
        if not self._stopped:
            self._due = when
            self._alarm = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        now = self._loop.time()
        if now - self._due > _STOOD_STILL_S:
            self._ring_at(now + _FRAME_S)  # read first what has come meanwhile
            return
        if self._arrivals:
            self._catch_up(now)
        elif self._late is None and now - self._known_until >= _PATIENCE_S - 1e-6:
            self._late = deque()
        if self._late is not None:
            self._fill(now)
        self._ring_at(now + _FRAME_S if self._late is not None else self._known_until + _PATIENCE_S)

    def _catch_up(self, now: float) -> None:
        """Hear what is held once it no longer comes faster than it is spoken."""
        assert self._late is not None
        if now - self._arrivals[0][0] < _CALM_S:
            return
        while self._arrivals and now - self._arrivals[0][0] > _CALM_S + _FRAME_S:
            self._arrivals.popleft()
        if sum(samples for _, samples in self._arrivals) > _CALM + INPUT_FRAME:
            return
        self._release(now)

    def _release(self, now: float) -> None:
        assert self._late
        held, self._late, self._late_samples = self._late, None, 0
        self._arrivals.clear()
        self._known_until = now + len(held[-1]) / INPUT_RATE_HZ  # the next is due that much later
        for pcm in held:
            self._emit(pcm)

    def _fill(self, now: float) -> None:
        self._known_until = max(self._known_until, now - _MAX_GAP_S)
        samples = int((now - self._known_until) * INPUT_RATE_HZ)
        if samples > 0:
            self._known_until += samples / INPUT_RATE_HZ
            self._emit(np.zeros(samples, np.int16))

    def _emit(self, pcm: Pcm) -> None:
        if self._stopped:
            return
        try:
            for frame in self._framer.push(pcm):
                self._take(frame)
        except Exception as error:
            self.stop()
            self._failed(error)
