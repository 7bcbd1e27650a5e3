"""The assistant's track: 20 ms frames at a clock of its own, read from the playout."""

from __future__ import annotations

import asyncio
import fractions

from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from app.audio.frames import FRAME_MS, OUTPUT_FRAME, OUTPUT_RATE_HZ
from app.audio.playout import Playout

_TIME_BASE = fractions.Fraction(1, OUTPUT_RATE_HZ)
_FRAME_S = FRAME_MS / 1000
_MAX_BEHIND_S = 0.06
"""After a stall three frames may follow at once; time lost beyond that is skipped, not sent in a burst."""


class PacedTrack(MediaStreamTrack):
    """What leaves here is what counts as heard. Encoding (in aiortc) runs on the loop's default executor,
    which nothing else may use."""

    kind = "audio"

    def __init__(self, playout: Playout) -> None:
        super().__init__()
        self._playout = playout
        self._due: float | None = None
        self._pts = 0

    async def recv(self) -> AudioFrame:
        if self.readyState != "live":
            raise MediaStreamError
        now = asyncio.get_running_loop().time()
        self._due = now if self._due is None else self._due + _FRAME_S
        if now < self._due:
            await asyncio.sleep(self._due - now)
        elif now - self._due > _MAX_BEHIND_S:
            skipped = int((now - self._due) / _FRAME_S)
            self._due += skipped * _FRAME_S
            self._pts += skipped * OUTPUT_FRAME
        frame = AudioFrame.from_ndarray(self._playout.read(OUTPUT_FRAME).reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate = OUTPUT_RATE_HZ
        frame.pts = self._pts
        frame.time_base = _TIME_BASE
        self._pts += OUTPUT_FRAME
        return frame
