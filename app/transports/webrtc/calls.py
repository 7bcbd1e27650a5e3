"""All calls of a server: offers in, answers out."""

from __future__ import annotations

import asyncio
import secrets

from aiortc import RTCPeerConnection, RTCSessionDescription

from app.config.settings import ServerSettings
from app.dialogue.ports import SessionHost
from app.errors import InvalidRequest, StageUnavailable
from app.transports.answer import Answer
from app.transports.start import AFRESH, Start
from app.transports.webrtc.call import Call
from app.transports.webrtc.ice import configuration

_SDP_LIMIT = 64 * 1024
_STOPPING = "The server is stopping; call again once it is back."


class WebRtcCalls:
    """Implements CallService with aiortc."""

    def __init__(self, host: SessionHost, settings: ServerSettings) -> None:
        self._host = host
        self._settings = settings
        self._calls: dict[str, Call] = {}
        self._opening: set[asyncio.Task[RTCSessionDescription]] = set()
        self._watchers: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def active(self) -> int:
        """Calls that are open."""
        return len(self._calls)

    async def offer(self, sdp: str, type: str, start: Start = AFRESH) -> Answer:
        if self._stopping:
            raise StageUnavailable(_STOPPING)
        if type != "offer" or len(sdp) > _SDP_LIMIT or not sdp.startswith("v=0"):
            raise InvalidRequest(f"Send a session description of type 'offer' with at most {_SDP_LIMIT // 1024} KiB.")
        if "\nm=audio " not in sdp:
            raise InvalidRequest("The offer has no audio: add a microphone track or an audio transceiver.")
        if "opus/48000" not in sdp.lower():
            raise InvalidRequest("The offer has no Opus audio, which every WebRTC client can offer (RFC 7874).")
        connection = RTCPeerConnection(configuration(self._settings))
        call = Call(f"call_{secrets.token_urlsafe(16)}", connection, self._settings.connect_timeout_s)
        opening = asyncio.get_running_loop().create_task(self._open(call, sdp, start), name=f"open {call.id}")
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        try:
            description = await opening
        except asyncio.CancelledError:
            if self._stopping and not _is_cancelled():
                raise StageUnavailable(_STOPPING) from None
            raise
        return Answer(description.sdp, description.type, call.id)

    async def _open(self, call: Call, sdp: str, start: Start) -> RTCSessionDescription:
        description = await call.open(self._host, sdp, start)
        self._calls[call.id] = call
        watcher = asyncio.get_running_loop().create_task(self._forget_when_closed(call))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        return description

    async def hang_up(self, call_id: str, *, leave: bool = False) -> None:
        """End a call; an unknown one has ended already. With ``leave`` its session waits for the client."""
        if (call := self._calls.get(call_id)) is not None:
            await (call.leave("left") if leave else call.close("hung_up"))

    async def close_all(self) -> None:
        """End every call, those that are being opened too, and take no more."""
        self._stopping = True
        opening = list(self._opening)
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        await asyncio.gather(*(call.close("server_stopping") for call in list(self._calls.values())))
        await asyncio.gather(*self._watchers)

    async def _forget_when_closed(self, call: Call) -> None:
        try:
            await call.wait_closed()
        finally:
            self._calls.pop(call.id, None)


def _is_cancelled() -> bool:
    """Whether it is our own caller who gave up."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
