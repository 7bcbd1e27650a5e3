"""``GET /call``: a call over a WebSocket."""

from __future__ import annotations

import logging
from typing import Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketDisconnected

from app.errors import ParleyError
from app.server.replies import CLOSE_CODES_FROM, deny, error_response, from_parley_error
from app.telemetry.log import log_event
from app.telemetry.metrics import Metrics
from app.transports.events import encode
from app.transports.websocket import Socket, SocketClosed

_log = logging.getLogger("parley.server")

SUBPROTOCOL = "parley"
_SOCKETS = 256
"""Connections that may be open at once, those that have not said yet what they want too."""
_BROKEN = 1006


class SocketService(Protocol):
    """Carries calls over the sockets that it is given."""

    @property
    def active(self) -> int: ...

    async def serve(self, socket: Socket) -> None:
        """Until the call ends. Raises a ParleyError if none came about."""
        ...

    async def close_all(self) -> None:
        """End every call, telling each client that the server goes away."""
        ...


class SocketEndpoint:
    """The endpoint (an ASGI application), over a SocketService."""

    def __init__(self, calls: SocketService, metrics: Metrics) -> None:
        self._calls = calls
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (refusal := self._refusal(scope)) is not None:
            await deny(refusal, scope, receive, send)
            return
        websocket = WebSocket(scope, receive, send)
        await websocket.accept(SUBPROTOCOL)
        socket = _StarletteSocket(websocket)
        try:
            await self._calls.serve(socket)
        except ParleyError as error:
            self._metrics.refused.labels(error.code).inc()
            log_event(_log, "call_refused", code=error.code, reason=str(error))
            await _refuse_call(socket, error)

    def _refusal(self, scope: Scope) -> Response | None:
        if self._calls.active >= _SOCKETS:
            self._metrics.refused.labels("too_many_offers").inc()
            message = "Too many connections are open; try again in a moment."
            return error_response(429, "too_many_offers", message, retry_after_s=1)
        if SUBPROTOCOL not in scope["subprotocols"]:
            return error_response(400, "invalid_request", f'Open the WebSocket with the subprotocol "{SUBPROTOCOL}".')
        return None


async def _refuse_call(socket: Socket, error: ParleyError) -> None:
    response = from_parley_error(error)
    kind = "invalid_request_error" if response.status_code < 500 else "server_error"
    body: dict[str, object] = {"type": kind, "code": error.code, "message": str(error)}
    if (retry_after_s := response.headers.get("retry-after")) is not None:
        body["retry_after_s"] = int(retry_after_s)
    try:
        await socket.send(encode({"type": "error", "error": body}))
        await socket.close(CLOSE_CODES_FROM + response.status_code, error.code)
    except SocketClosed:
        return


class _StarletteSocket:
    """Implements Socket."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._code: int | None = None

    async def receive(self) -> str | bytes:
        if self._code is not None:
            raise SocketClosed(self._code)
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            self._code = int(message.get("code") or _BROKEN)
            raise SocketClosed(self._code)
        text: str | None = message.get("text")
        data: bytes | None = message.get("bytes")
        return text if text is not None else data or b""

    async def send(self, message: str | bytes) -> None:
        try:
            if isinstance(message, str):
                await self._websocket.send_text(message)
            else:
                await self._websocket.send_bytes(message)
        except (WebSocketDisconnect, WebSocketDisconnected):
            raise SocketClosed(_BROKEN) from None

    async def close(self, code: int, reason: str) -> None:
        try:
            await self._websocket.close(code, reason)
        except (WebSocketDisconnect, WebSocketDisconnected):
            raise SocketClosed(_BROKEN) from None
