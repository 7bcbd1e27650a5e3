"""The assistant's track: 20 ms packets at a clock of its own."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError
from av.packet import Packet

from app.audio.frames import FRAME_MS, OUTPUT_FRAME, Pcm
from app.transports.webrtc.opus import TIME_BASE, SpeechEncoder

_FRAME_S = FRAME_MS / 1000
_MAX_BEHIND_S = 0.06
"""After a stall three frames may follow at once; time lost beyond that is skipped, not sent in a burst."""


class PacedTrack(MediaStreamTrack):
    """What leaves here is what counts as heard.

    It gives aiortc packets instead of frames: those are sent as they are, where a frame would go through a
    thread, a stereo encoder of twice the rate and a loop in Python over its samples.
    """

    kind = "audio"

    def __init__(self, pull: Callable[[int], Pcm]) -> None:
        """``pull`` gives that many samples of sound, int16 at 48 kHz."""
        super().__init__()
        self._pull = pull
        self._encoder = SpeechEncoder()
        self._due: float | None = None
        self._pts = 0

    async def recv(self) -> Packet[Any]:
        if self.readyState != "live":
            raise MediaStreamError
        now = asyncio.get_running_loop().time()
        # All tracks share one beat: eight calls then wake the loop fifty times a second, not four hundred.
        self._due = math.ceil(now / _FRAME_S) * _FRAME_S if self._due is None else self._due + _FRAME_S
        if now < self._due:
            await asyncio.sleep(self._due - now)
        elif now - self._due > _MAX_BEHIND_S:
            skipped = int((now - self._due) / _FRAME_S)
            self._due += skipped * _FRAME_S
            self._pts += skipped * OUTPUT_FRAME
        packet = Packet(self._encoder.encode(self._pull(OUTPUT_FRAME)))
        packet.pts = self._pts
        packet.time_base = TIME_BASE
        self._pts += OUTPUT_FRAME
        return packet
