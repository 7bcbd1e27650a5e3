"""From Opus packets in order to 20 ms frames of 16 kHz mono, with gaps concealed and a clock that never stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from app.audio.framer import Framer
from app.audio.frames import FRAME_MS, INPUT_RATE_HZ, Pcm
from app.audio.resample import Resampler
from app.transports.webrtc.opus import OPUS_RATE_HZ, SpeechDecoder

_PATIENCE_S = 0.1
"""Longest wait for a packet before time goes on without it: a stalled network must not stop the clock."""
_FRAME_S = FRAME_MS / 1000
_LATE_S = 0.02
"""A timer that fires later than this shows that our loop stood still, and packets may lie unread."""
_MAX_GAP_S = 1.0
"""What is filled in after a pause in the stream; a longer one (a sleeping laptop) is not worth replaying."""
_WRAP = 1 << 32


class Inbound:
    """Gives ``take`` a frame (int16 ``[320]``) for every 20 ms that pass, from the first packet until ``stop``.

    All of it happens within ``packet``, on the event loop, in 0.1 ms: a thread for the decoder would cost more in
    handing over than it does in work. Whatever ``take`` raises ends it and is told to ``failed``.
    """

    def __init__(self, take: Callable[[Pcm], None], failed: Callable[[Exception], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._take = take
        self._failed = failed
        self._decoder = SpeechDecoder()
        self._resampler = Resampler(OPUS_RATE_HZ, INPUT_RATE_HZ)
        self._framer = Framer()
        self._next_timestamp: int | None = None
        self._filled = 0
        """Samples made up since the last real packet, at the rate of the timestamps."""
        self._filled_until = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._stopped = False

    def packet(self, payload: bytes, timestamp: int) -> None:
        """The next packet in order; ``timestamp`` is RTP's (32 bits, 48 kHz)."""
        if self._stopped or not payload:  # padding alone is no sound
            return
        self._conceal_gap_before(timestamp)
        pcm = self._decoder.decode(payload)
        if not len(pcm):  # damaged: the next packet will find a gap
            return
        self._next_timestamp = (timestamp + len(pcm)) % _WRAP
        self._filled = 0
        self._filled_until = self._loop.time()
        self._emit(pcm)
        if self._alarm is None:  # before the first packet there is no clock to keep going
            self._ring_at(self._filled_until + _PATIENCE_S)

    def _conceal_gap_before(self, timestamp: int) -> None:
        if self._next_timestamp is None:
            return
        ahead = (timestamp - self._next_timestamp + _WRAP // 2) % _WRAP - _WRAP // 2
        gap = min(ahead - self._filled, int(_MAX_GAP_S * OPUS_RATE_HZ))
        if gap > 0:
            self._filled += gap
            self._emit(self._decoder.conceal(gap))

    def restart(self) -> None:
        """The client begins a new stream: its timestamps have nothing to do with the old ones."""
        self._next_timestamp = None

    def stop(self) -> None:
        """Give no more frames."""
        self._stopped = True
        if self._alarm is not None:
            self._alarm.cancel()

    def _ring_at(self, when: float) -> None:
        if self._stopped:
            return
        self._due = when
        self._alarm = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        now = self._loop.time()
        if now - self._due > _LATE_S:
            self._ring_at(now + _LATE_S)  # read first what has come meanwhile
        elif self._filled == 0 and now - self._filled_until < _PATIENCE_S:
            self._ring_at(self._filled_until + _PATIENCE_S)
        else:
            samples = int((now - self._filled_until) * OPUS_RATE_HZ)
            self._filled += samples
            self._filled_until = now
            self._emit(self._decoder.conceal(samples))
            self._ring_at(self._due + _FRAME_S)

    def _emit(self, pcm: Pcm) -> None:
        try:
            for frame in self._framer.push(self._resampler.process(pcm)):
                self._take(frame)
        except Exception as error:  # raised into aiortc it would end the transport without a word
            self.stop()
            self._failed(error)
