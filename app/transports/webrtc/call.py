"""One call: a peer connection, the session it carries, and whatever may end either."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable

import aioice.ice
from aiortc import MediaStreamTrack, RTCPeerConnection, RTCRtpSender, RTCSessionDescription

from app.dialogue.ports import ConversationPort, SessionHost
from app.errors import InvalidRequest
from app.telemetry.log import log_event
from app.transports.start import Start, take_seat
from app.transports.webrtc.channel import EventChannel
from app.transports.webrtc.ice import without_mdns
from app.transports.webrtc.inbound import Inbound
from app.transports.webrtc.outbound import PacedTrack
from app.transports.webrtc.receiver import take_packets

_log = logging.getLogger("parley.calls")

_SILENT_S = 15.0
"""A client that has sent neither sound nor a ping for this long is gone; ICE itself takes 28 s to notice."""
# aioice asks the client every 5 s whether it is still there, takes an answer that comes after 0.5 s for none, and ends
# the call after six: half a busy minute would end all calls at once. What arrives from a client shows it well enough.
aioice.ice.CONSENT_FAILURES = sys.maxsize
_CHECK_S = 1.0
_FAREWELL_S = 0.3
"""For the last events to leave before the connection is closed."""
_CLOSE_TIMEOUT_S = 5.0


class Call:
    """Made by ``open``; ends by ``close`` or ``leave``, with its session, or when its client is lost or comes back by
    another way, whichever is first. A client that was lost is waited for: its session goes on without a call."""

    def __init__(self, call_id: str, connection: RTCPeerConnection, connect_timeout_s: float) -> None:
        self.id = call_id
        self._connection = connection
        self._connect_timeout_s = connect_timeout_s
        self._loop = asyncio.get_running_loop()
        self._channel = EventChannel(
            lambda event: self._session.receive(event),
            self._seen,
            lambda: self._end_soon("client_too_slow", leave=True),
        )
        self._last_seen: float | None = None
        self._opened = self._loop.time()
        self._tasks: list[asyncio.Task[None]] = []
        self._stops: list[Callable[[], None]] = []
        self._listening = False
        self._ending = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        connection.on("track", self._on_track)
        connection.on("datachannel", self._channel.attach)
        connection.on("connectionstatechange", self._on_state)

    async def open(self, host: SessionHost, sdp: str, start: Start) -> RTCSessionDescription:
        """Open the session that ``start`` asks for and answer the offer.

        Raises SessionLimit, ResumeExpired, InvalidRequest; nothing new is left behind then, and a session that was to
        be resumed waits on.
        """
        self._session: ConversationPort = await take_seat(host, start, self._channel.send, transport="webrtc")
        self._resumed = bool(start.token)
        try:
            self._offer_our_track()
            try:
                await self._connection.setRemoteDescription(RTCSessionDescription(without_mdns(sdp), "offer"))
            except Exception as error:  # aiortc raises whatever its parser stumbles over
                raise InvalidRequest(f"The offer cannot be used: {error or type(error).__name__}") from error
            self._refuse_other_media()
            try:
                await self._connection.setLocalDescription(await self._connection.createAnswer())
            except Exception as error:
                raise InvalidRequest(f"The offer cannot be answered: {error or type(error).__name__}") from error
        except BaseException:
            await (self.leave if self._resumed else self.close)("offer_refused")
            raise
        self._tasks.append(self._loop.create_task(self._watch(), name=f"watch {self.id}"))
        self._tasks.append(self._loop.create_task(self._follow_session(), name=f"follow {self.id}"))
        return self._connection.localDescription

    def _offer_our_track(self) -> None:
        """Opus alone, which every WebRTC client speaks (RFC 7874, section 3): the track gives encoded packets."""
        self._connection.addTrack(PacedTrack(self._session.pull_audio))
        (transceiver,) = self._connection.getTransceivers()
        codecs = RTCRtpSender.getCapabilities("audio").codecs
        transceiver.setCodecPreferences([codec for codec in codecs if codec.mimeType == "audio/opus"])

    def _refuse_other_media(self) -> None:
        """One audio stream is all that is wanted; decoding a video that nobody sees would cost a core."""
        wanted = True
        for transceiver in self._connection.getTransceivers():
            if transceiver.kind == "audio" and wanted:
                wanted = False
            else:
                transceiver.direction = "inactive"

    def _on_track(self, track: MediaStreamTrack) -> None:
        if track.kind != "audio" or self._listening:
            return
        self._listening = True
        receiver = next(item.receiver for item in self._connection.getTransceivers() if item.receiver.track is track)
        inbound = Inbound(lambda frame: self._session.push_audio(frame), self._deaf)
        self._stops += [inbound.stop, take_packets(receiver, inbound, self._seen)]

    def _deaf(self, error: Exception) -> None:
        """A call that cannot hear any more must not look alive."""
        log_event(_log, "inbound_failed", level=logging.ERROR, error=error, call=self.id)
        self._end_soon("internal_error")

    def _on_state(self) -> None:
        if self._connection.connectionState in ("failed", "closed"):
            self._end_soon("connection_" + self._connection.connectionState, leave=True)

    def _seen(self) -> None:
        self._last_seen = self._loop.time()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_S)
            now = self._loop.time()
            if self._last_seen is None:
                if now - self._opened > self._connect_timeout_s:
                    # Without ever having been there the client knows no token to come back with.
                    self._end_soon("connect_timeout", leave=self._resumed)
                    return
            elif now - self._last_seen > _SILENT_S:
                self._end_soon("client_gone", leave=True)
                return

    async def _follow_session(self) -> None:
        await self._session.wait_closed()
        self._end_soon("replaced" if self._session.replaced else "session_ended")

    def _end_soon(self, reason: str, *, leave: bool = False) -> None:
        if self._closing is None:
            self._closing = self._loop.create_task(self._close(reason, leave), name=f"close {self.id}")
            self._ending.set()

    async def close(self, reason: str) -> None:
        """End the call and its session. Idempotent; goes on to its end even if the caller is cancelled."""
        self._end_soon(reason)
        await self.wait_closed()

    async def leave(self, reason: str) -> None:
        """End the call; its session waits for the client to come back. Otherwise as ``close``."""
        self._end_soon(reason, leave=True)
        await self.wait_closed()

    async def wait_closed(self) -> None:
        """Return once the call has been closed and everything it held is free."""
        await self._ending.wait()
        assert self._closing is not None
        await asyncio.shield(self._closing)

    async def _close(self, reason: str, leave: bool) -> None:
        log_event(_log, "call_closed", call=self.id, session=self._session.id, reason=reason)
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await (self._session.leave() if leave else self._session.close(reason))
        except Exception as error:  # the connection must be freed whatever the session does
            log_event(_log, "session_close_failed", level=logging.ERROR, error=error, session=self._session.id)
        if self._connection.connectionState == "connected":
            await asyncio.sleep(_FAREWELL_S)
        for stop in self._stops:
            stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._connection.close()
