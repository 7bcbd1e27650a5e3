"""From decoded frames of the client's track to 20 ms frames of 16 kHz mono, with gaps concealed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from app.audio.framer import Framer
from app.audio.frames import FRAME_MS, INPUT_RATE_HZ, Pcm
from app.audio.resample import Resampler, downmix
from app.transports.webrtc.receiver import waiting_frames

_PATIENCE_S = 0.1
"""Longest wait for a frame before time goes on without it: a stalled network must not stop the clock."""
_FRAME_S = FRAME_MS / 1000
_FADE_S = 0.06
"""Concealment repeats the last sound, fading over three packets: longer repeats sound like a machine."""
_MAX_GAP_S = 1.0
"""What is filled in after a pause in the stream; a longer one (a sleeping laptop) is not worth replaying."""


class Concealer:
    """Fills gaps with what was last heard, fading into silence (waveform repetition, as in G.711 Appendix I)."""

    def __init__(self, rate_hz: int) -> None:
        self._fade = int(_FADE_S * rate_hz)
        self._last: Pcm = np.zeros(0, np.int16)
        self._concealed = 0
        self._joint = int(0.005 * rate_hz)

    def heard(self, pcm: Pcm) -> Pcm:
        """Real sound; faded in over 5 ms if it follows a gap, so that the joint makes no click."""
        if self._concealed and len(pcm) >= self._joint:
            ramp = np.linspace(0.0, 1.0, self._joint, dtype=np.float32)
            pcm = np.concatenate([(pcm[: self._joint] * ramp).astype(np.int16), pcm[self._joint :]])
        self._concealed = 0
        self._last = pcm
        return pcm

    def conceal(self, samples: int) -> Pcm:
        """``samples`` of substitute sound (int16)."""
        if not len(self._last):
            return np.zeros(samples, np.int16)
        # Backwards at every second turn: the repeated piece joins itself without a jump.
        piece = np.concatenate([self._last[::-1], self._last])
        positions = (self._concealed + np.arange(samples)) % len(piece)
        gain = np.clip(1.0 - (self._concealed + np.arange(samples)) / self._fade, 0.0, 1.0)
        self._concealed += samples
        return (piece[positions] * gain).astype(np.int16)


class Inbound:
    """Reads one track and gives ``take`` a frame (int16 ``[320]``) for every 20 ms that pass."""

    def __init__(self, track: MediaStreamTrack, take: Callable[[Pcm], None]) -> None:
        self._track = track
        self._take = take
        self._framer = Framer()
        self._resampler: Resampler | None = None
        self._concealer: Concealer | None = None
        self._next_pts: int | None = None
        self._filled = 0
        """Samples made up since the last real frame, at the track's rate."""

    async def run(self) -> None:
        """Until the track ends."""
        loop = asyncio.get_running_loop()
        patience_s: float | None = None  # before the first frame there is no clock to keep going
        filled_until = loop.time()
        while True:
            try:
                async with asyncio.timeout(patience_s):
                    frame = await self._track.recv()
            except MediaStreamError:
                return
            except TimeoutError:
                if waiting_frames(self._track):  # it was our loop that stood still, not the network
                    continue
                self._fill(loop.time() - filled_until)
                filled_until = loop.time()
                patience_s = _FRAME_S
                continue
            filled_until = loop.time()
            patience_s = _PATIENCE_S
            if isinstance(frame, AudioFrame):
                self._real(frame)

    def _fill(self, seconds: float) -> None:
        if self._concealer is None or self._resampler is None:
            return
        samples = int(seconds * self._resampler.from_hz)
        self._filled += samples
        self._emit(self._concealer.conceal(samples))

    def _real(self, frame: AudioFrame) -> None:
        rate_hz = frame.sample_rate
        pcm = downmix(frame.to_ndarray(), len(frame.layout.channels))
        if self._resampler is None or self._resampler.from_hz != rate_hz:
            self._resampler = Resampler(rate_hz, INPUT_RATE_HZ)
            self._concealer = Concealer(rate_hz)
            self._next_pts = None
        assert self._concealer is not None
        pts = frame.pts or 0
        gap = 0 if self._next_pts is None else pts - self._next_pts - self._filled
        if gap > 0:
            self._emit(self._concealer.conceal(min(gap, int(_MAX_GAP_S * rate_hz))))
        self._next_pts = pts + len(pcm)
        self._filled = 0
        self._emit(self._concealer.heard(pcm))

    def _emit(self, pcm: Pcm) -> None:
        assert self._resampler is not None
        for frame in self._framer.push(self._resampler.process(pcm)):
            self._take(frame)
