"""Connections for a self-test: a data channel that sends back what it gets. No session, no sound."""

from __future__ import annotations

import asyncio
import logging

from aiortc import RTCDataChannel, RTCPeerConnection, RTCSessionDescription

from app.config.settings import ServerSettings
from app.errors import InvalidRequest, Overloaded
from app.telemetry.log import log_event
from app.transports.webrtc.ice import configuration, without_mdns

_log = logging.getLogger("parley.check")

SDP_LIMIT = 64 * 1024
AT_ONCE = 8
"""Probes that are open; each costs a key pair, a socket per address and, for its life, next to nothing."""
LIFE_S = 15.0
"""From the offer: a browser tries to connect for 8 s and then wants 2 s of pings."""
_PINGS = 200
_PING_LIMIT = 256
"""Characters. What is longer is no ping and is dropped."""
_CLOSE_TIMEOUT_S = 5.0


class Probes:
    """Answers the offers of self-tests and closes each probe after ``LIFE_S``."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._open: set[RTCPeerConnection] = set()
        self._watchers: set[asyncio.Task[None]] = set()

    @property
    def active(self) -> int:
        """Probes that are open."""
        return len(self._open)

    async def offer(self, sdp: str) -> RTCSessionDescription:
        """The answer. Raises InvalidRequest, and Overloaded while ``AT_ONCE`` others are open."""
        if len(self._open) >= AT_ONCE:
            raise Overloaded(f"{AT_ONCE} self-tests are running; try again in a moment.", retry_after_s=LIFE_S / 3)
        if len(sdp) > SDP_LIMIT or "\nm=application " not in sdp or "\nm=audio " in sdp or "\nm=video " in sdp:
            raise InvalidRequest(f"A self-test offers a data channel and nothing else, in {SDP_LIMIT // 1024} KiB.")
        connection = RTCPeerConnection(configuration(self._settings))
        self._open.add(connection)
        connection.on("datachannel", _echo)
        try:
            await connection.setRemoteDescription(RTCSessionDescription(without_mdns(sdp), "offer"))
            await connection.setLocalDescription(await connection.createAnswer())
        except Exception as error:  # aiortc raises whatever its parser stumbles over
            await self._close(connection)
            raise InvalidRequest(f"The offer cannot be used: {error or type(error).__name__}") from error
        except BaseException:
            await self._close(connection)
            raise
        watcher = asyncio.create_task(self._watch(connection), name="self-test probe")
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        return connection.localDescription

    async def close_all(self) -> None:
        """Close every probe."""
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)

    async def _watch(self, connection: RTCPeerConnection) -> None:
        over = asyncio.Event()
        connection.on("connectionstatechange", lambda: over.set() if _is_over(connection) else None)
        try:
            async with asyncio.timeout(LIFE_S):
                await over.wait()
        except TimeoutError:
            pass
        finally:
            await self._close(connection)

    async def _close(self, connection: RTCPeerConnection) -> None:
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await connection.close()
        except TimeoutError:
            log_event(_log, "probe_not_closed_in_time", level=logging.WARNING, limit_s=_CLOSE_TIMEOUT_S)
        finally:
            self._open.discard(connection)


def _is_over(connection: RTCPeerConnection) -> bool:
    return connection.connectionState in ("failed", "closed")


def _echo(channel: RTCDataChannel) -> None:
    left = _PINGS

    @channel.on("message")
    def answer(message: object) -> None:
        nonlocal left
        left -= 1
        if left >= 0 and isinstance(message, str) and len(message) <= _PING_LIMIT:
            channel.send(message)
