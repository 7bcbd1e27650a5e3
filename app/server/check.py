"""The server's half of the self-test page: what a call's sound needs, tried without opening a session.

``POST /check/offer {sdp, type}`` answers a peer connection with nothing but a data channel, which echoes;
``GET /check/socket`` (WebSocket, subprotocol ``parley``) sends back the binary pieces it gets.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketDisconnected

from app.config.settings import ServerSettings
from app.errors import InvalidRequest, ParleyError
from app.server.body import read_json_body
from app.server.replies import from_parley_error
from app.telemetry.log import log_event
from app.telemetry.metrics import Metrics
from app.transports.webrtc import Probes

_log = logging.getLogger("parley.check")

SUBPROTOCOL = "parley"
SOCKETS_AT_ONCE = 8
SOCKET_LIFE_S = 10.0
_PIECES = 500
_PIECE_LIMIT = 4096
"""Bytes; 20 ms of a call are 640 up and 960 down."""
_BODY_LIMIT = 64 * 1024
_BODY_TIMEOUT_S = 10.0
_TRY_AGAIN_LATER = 1013  # RFC 6455 registry of close codes
_TOO_BIG = 1009
_POLICY = 1008


class Checks:
    """Both endpoints, each bounded in number and in time."""

    def __init__(self, settings: ServerSettings, metrics: Metrics) -> None:
        self._probes = Probes(settings)
        self._metrics = metrics
        self._sockets = 0

    @property
    def routes(self) -> list[BaseRoute]:
        return [
            Route("/check/offer", self.offer, methods=["POST"]),
            WebSocketRoute("/check/socket", self.socket),
        ]

    async def offer(self, request: Request) -> Response:
        try:
            answer = await self._probes.offer(await _read_offer(request))
        except ParleyError as error:
            self._metrics.refused.labels(error.code).inc()
            log_event(_log, "self_test_refused", code=error.code, reason=str(error))
            return from_parley_error(error)
        return JSONResponse({"sdp": answer.sdp, "type": answer.type}, headers={"cache-control": "no-store"})

    async def socket(self, socket: WebSocket) -> None:
        with contextlib.suppress(WebSocketDisconnect, WebSocketDisconnected):  # the client may go at any moment
            await self._serve(socket)

    async def _serve(self, socket: WebSocket) -> None:
        await socket.accept(SUBPROTOCOL if SUBPROTOCOL in socket.scope["subprotocols"] else None)
        if self._sockets >= SOCKETS_AT_ONCE:
            await socket.close(_TRY_AGAIN_LATER, f"{SOCKETS_AT_ONCE} self-tests are running; try again in a moment.")
            return
        self._sockets += 1
        try:
            async with asyncio.timeout(SOCKET_LIFE_S):
                await _echo(socket)
        except TimeoutError:
            await socket.close(_POLICY, f"A self-test may take {SOCKET_LIFE_S:.0f} s.")
        finally:
            self._sockets -= 1

    async def close_all(self) -> None:
        """Close all probes; the sockets end with the server's connections."""
        await self._probes.close_all()


async def _read_offer(request: Request) -> str:
    """The SDP. Raises InvalidRequest, or HTTPException as ``read_json_body`` does."""
    try:
        offer = json.loads(await read_json_body(request, limit=_BODY_LIMIT, timeout_s=_BODY_TIMEOUT_S))
    except (ValueError, RecursionError):
        raise InvalidRequest("The offer is not valid JSON; send {sdp, type}.") from None
    except ClientDisconnect:
        raise InvalidRequest("The client went away before its offer was complete.") from None
    if not isinstance(offer, dict) or offer.get("type") != "offer" or not isinstance(offer.get("sdp"), str):
        raise InvalidRequest('The offer must be a JSON object {sdp, type}, with type "offer".')
    return str(offer["sdp"])


async def _echo(socket: WebSocket) -> None:
    for _ in range(_PIECES):
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        piece = message.get("bytes")
        if piece is None or len(piece) > _PIECE_LIMIT:
            await socket.close(_TOO_BIG, f"Send binary pieces of at most {_PIECE_LIMIT} bytes.")
            return
        await socket.send_bytes(piece)
    await socket.close(_POLICY, f"A self-test may send {_PIECES} pieces.")
