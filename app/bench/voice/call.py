"""One WebRTC call as a light client: packets made beforehand go out, packets come in and are kept as they are."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import httpx
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from av.packet import Packet

from app.audio import OUTPUT_FRAME
from app.bench.voice.packets import PACKET_S, TIME_BASE, Spoken
from app.errors import StageError

_CONNECT_S = 20.0
_SILENT_BYTES = 8
"""libopus makes 3 bytes of digital silence, once it has come to rest, and more than these of anything else."""
_WRAP = 1 << 32


class CallFailed(StageError):
    """The call could not be opened; the message says why."""

    code = "call_failed"


@dataclass(frozen=True, slots=True)
class Said:
    """When the first and the last sample of speech left, in seconds of the loop's clock."""

    first_s: float
    last_s: float


@dataclass(slots=True)
class Arrivals:
    """Everything that was received, packet by packet."""

    at_s: list[float] = field(default_factory=list)
    """Of the loop's clock."""
    timestamps: list[int] = field(default_factory=list)
    """Samples at 48 kHz, without wrapping around (RFC 7587 section 4.1)."""
    payloads: list[bytes] = field(default_factory=list)
    last_sound_s: float = 0.0
    """When the newest packet arrived that is more than digital silence; up to 0.2 s late, see the encoder."""

    def add(self, at_s: float, timestamp: int, payload: bytes) -> None:
        if self.timestamps:
            before = self.timestamps[-1]
            timestamp = before + (timestamp - before + _WRAP // 2) % _WRAP - _WRAP // 2
        self.at_s.append(at_s)
        self.timestamps.append(timestamp)
        self.payloads.append(payload)
        if len(payload) > _SILENT_BYTES:
            self.last_sound_s = at_s


class Microphone(MediaStreamTrack):
    """Sends a quiet room, and what it is told to say, at the pace of a clock."""

    kind = "audio"

    def __init__(self, room: tuple[bytes, ...]) -> None:
        super().__init__()
        self._room = room
        self._clock = asyncio.get_running_loop()
        self._began: float | None = None
        self._sent = 0
        self._speech: Spoken | None = None
        self._at = 0
        self._first_s = 0.0
        self._last_s = 0.0
        self._said: asyncio.Future[Said] | None = None
        self.late_s: list[float] = []
        """By how much each packet left after its time: what the caller's own process adds to the figures."""

    async def say(self, speech: Spoken) -> Said:
        """Speak from the next packet on; returns when the last sample of speech has left."""
        self._speech, self._at = speech, 0
        self._said = self._clock.create_future()
        return await self._said

    async def recv(self) -> Packet[Any]:
        """The next packet, encoded already: aiortc sends it as it is."""
        if self.readyState != "live":
            raise MediaStreamError
        now = self._clock.time()
        self._note_sent(now)
        self._began = now if self._began is None else self._began
        due = self._began + self._sent * PACKET_S
        if due > now:
            await asyncio.sleep(due - now)
            now = self._clock.time()
        self.late_s.append(now - due)
        packet = Packet(self._next_payload())
        packet.pts, packet.time_base = self._sent * OUTPUT_FRAME, TIME_BASE
        self._sent += 1
        return packet

    def _next_payload(self) -> bytes:
        if self._speech is None:
            return self._room[self._sent % len(self._room)]
        self._at += 1
        return self._speech.packets[self._at - 1]

    def _note_sent(self, now: float) -> None:
        """aiortc sends a packet before it asks for the next one, so the one before has left by ``now``."""
        speech, said = self._speech, self._said
        if speech is None or said is None or not self._at:
            return
        if self._at - 1 == speech.first:
            self._first_s = now
        if self._at - 1 == speech.last and not said.done():
            said.set_result(Said(self._first_s, now))
        if self._at == len(speech.packets):
            self._speech = None


class VoiceCall:
    """Use as an async context manager. Raises CallFailed on entering."""

    def __init__(self, url: str, room: tuple[bytes, ...]) -> None:
        """``url`` of the server, with a slash at its end."""
        self._url = url
        self.microphone = Microphone(room)
        self.heard = Arrivals()
        self.events: list[tuple[float, dict[str, Any]]] = []
        self.state = ""
        """What ``parley.state`` said last."""
        self.reply_over_s = 0.0
        """When the server last said that a reply was over, heard to its end or not."""
        self._closed_because = ""
        self._loop = asyncio.get_running_loop()
        self._connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._opened = asyncio.Event()

    async def __aenter__(self) -> VoiceCall:
        try:
            await self._open()
        except BaseException:
            await self._connection.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    @property
    def ended(self) -> str:
        """Why the call is over, if the server has ended it or the connection is lost; else empty."""
        state = self._connection.connectionState
        return self._closed_because or (f"connection {state}" if state in ("failed", "closed") else "")

    async def _open(self) -> None:
        sender = self._connection.addTrack(self.microphone)
        transceiver = next(item for item in self._connection.getTransceivers() if item.sender is sender)
        # Nothing is decoded while the call lasts: packets are taken where they arrive (a private name of aiortc's,
        # as in app/transports/webrtc/receiver.py, whose test would notice a change).
        transceiver.receiver._handle_rtp_packet = self._packet  # type: ignore[method-assign]
        channel = self._connection.createDataChannel("oai-events")
        channel.on("open", self._opened.set)
        channel.on("message", self._event)
        await self._connection.setLocalDescription(await self._connection.createOffer())
        offer = self._connection.localDescription
        answer = await self._post({"sdp": offer.sdp, "type": offer.type})
        await self._connection.setRemoteDescription(RTCSessionDescription(answer["sdp"], answer["type"]))
        try:
            async with asyncio.timeout(_CONNECT_S):
                await self._opened.wait()
        except TimeoutError:
            raise CallFailed(
                f"The server answered, but no media arrived within {_CONNECT_S:.0f} s. aiortc does not use loopback "
                "addresses: this machine needs another network interface that is up."
            ) from None

    async def _post(self, offer: dict[str, str]) -> dict[str, Any]:
        try:
            async with httpx.AsyncClient(timeout=_CONNECT_S, trust_env=False) as http:
                response = await http.post(f"{self._url}offer", json=offer)
        except httpx.HTTPError as error:
            raise CallFailed(f"{self._url}offer: {error or type(error).__name__}") from error
        if response.status_code != 200:
            raise CallFailed(f"{self._url}offer answered {response.status_code}: {response.text[:300]}")
        answer: dict[str, Any] = response.json()
        return answer

    async def _packet(self, packet: Any, arrival_time_ms: int) -> None:
        self.heard.add(self._loop.time(), packet.timestamp, packet.payload)

    def _event(self, message: Any) -> None:
        event = json.loads(message)
        self.events.append((self._loop.time(), event))
        if event["type"] == "parley.state":
            self.state = event["state"]
        elif event["type"] == "response.done":
            self.reply_over_s = self._loop.time()
        elif event["type"] == "parley.closed":
            self._closed_because = f"server: {event.get('reason')}"
