"""A real aiortc client for tests: plays an array as its microphone, records what it hears, can lose packets."""

from __future__ import annotations

import asyncio
import fractions
import json
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from app.audio import Pcm, downmix
from app.transports.answer import Answer

RATE_HZ = 48_000
Answerer = Callable[[str, str], Awaitable[Answer]]


class ArrayTrack(MediaStreamTrack):
    """``pcm`` (int16, mono) at real time, then silence; the same on every one of ``channels``."""

    kind = "audio"

    def __init__(self, pcm: Pcm, rate_hz: int = RATE_HZ, channels: int = 1) -> None:
        super().__init__()
        self._rate_hz = rate_hz
        self._channels = channels
        self._pcm = pcm
        self._sent = 0
        self._began: float | None = None

    async def recv(self) -> AudioFrame:
        if self.readyState != "live":
            raise MediaStreamError
        loop = asyncio.get_running_loop()
        self._began = loop.time() if self._began is None else self._began
        await asyncio.sleep(max(0.0, self._began + self._sent / self._rate_hz - loop.time()))
        count = self._rate_hz // 50
        samples = np.zeros(count, np.int16)
        piece = self._pcm[self._sent : self._sent + count]
        samples[: len(piece)] = piece
        layout = "mono" if self._channels == 1 else "stereo"
        interleaved = np.repeat(samples, self._channels).reshape(1, -1)
        frame = AudioFrame.from_ndarray(interleaved, format="s16", layout=layout)
        frame.sample_rate = self._rate_hz
        frame.pts = self._sent
        frame.time_base = fractions.Fraction(1, self._rate_hz)
        self._sent += count
        return frame


class WebRtcClient:
    """Use as an async context manager. ``lose(sequence_index)`` True drops that outgoing RTP packet."""

    def __init__(
        self,
        answer: Answerer,
        microphone: Pcm,
        lose: Callable[[int], bool] = lambda index: False,
        *,
        rate_hz: int = RATE_HZ,
        channels: int = 1,
    ) -> None:
        self._answer = answer
        self._lose = lose
        self._microphone = ArrayTrack(microphone, rate_hz, channels)
        self.events: list[dict[str, Any]] = []
        self.heard: list[Pcm] = []
        self.packets = 0
        """Of sound, sent (or lost) so far; 20 ms each."""

    async def __aenter__(self) -> WebRtcClient:
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        sender = self.connection.addTrack(self._microphone)
        self.channel = self.connection.createDataChannel("oai-events")
        self.channel.on("message", lambda text: self.events.append(json.loads(text)))
        opened = asyncio.Event()
        self.channel.on("open", opened.set)
        self._listening: asyncio.Task[None] | None = None
        self.connection.on("track", self._listen)
        await self.connection.setLocalDescription(await self.connection.createOffer())
        self._drop_packets(sender)
        answer = await self._answer(self.connection.localDescription.sdp, "offer")
        self.call_id = answer.call_id
        await self.connection.setRemoteDescription(RTCSessionDescription(answer.sdp, answer.type))
        async with asyncio.timeout(10):
            await opened.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.connection.close()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)

    def send(self, message: str | bytes) -> None:
        self.channel.send(message)

    def sound(self) -> Pcm:
        return np.concatenate(self.heard) if self.heard else np.zeros(0, np.int16)

    def _listen(self, track: MediaStreamTrack) -> None:
        async def run() -> None:
            try:
                while True:
                    frame = await track.recv()
                    assert isinstance(frame, AudioFrame)
                    self.heard.append(downmix(frame.to_ndarray(), len(frame.layout.channels)).copy())
            except MediaStreamError:
                return

        self._listening = asyncio.get_running_loop().create_task(run())

    def _drop_packets(self, sender: Any) -> None:
        """RTP packets (RFC 3550: version 2, dynamic payload type) go through ``lose``; RTCP always passes."""
        transport = sender.transport
        send = transport._send_rtp

        async def lossy(data: bytes) -> None:
            is_rtcp = 64 <= (data[1] & 0x7F) <= 95
            if not is_rtcp:
                self.packets += 1
                if self._lose(self.packets):
                    return
            await send(data)

        transport._send_rtp = lossy
