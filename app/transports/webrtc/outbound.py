"""The assistant's track: 20 ms packets at a clock of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError
from av.packet import Packet

from app.audio.frames import OUTPUT_FRAME, Pcm
from app.transports.beat import Beat
from app.transports.webrtc.opus import TIME_BASE, SpeechEncoder


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
        self._beat = Beat()
        self._pts = 0

    async def recv(self) -> Packet[Any]:
        if self.readyState != "live":
            raise MediaStreamError
        self._pts += await self._beat.next() * OUTPUT_FRAME
        packet = Packet(self._encoder.encode(self._pull(OUTPUT_FRAME)))
        packet.pts = self._pts
        packet.time_base = TIME_BASE
        self._pts += OUTPUT_FRAME
        return packet
