"""uvicorn's WebSocket protocol, holding back no more than the network takes, and ending in good order."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any, cast

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

_SEND_BUFFER = 8 * 1024
"""Bytes asked for, of which Linux makes twice as many and spends half on housekeeping. By default it may hold back
megabytes: a minute and a half of sound that would count as heard while the client still waits for it."""
_READ_BUFFER = 4 * 1024
"""Bytes read at once: 100 ms of sound. Of the 256 KiB that asyncio would take in one go a client can make forty thousand
messages, and nobody else is heard while those are looked at."""
_ABORT_S = 5.0


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """``send`` returns at once while the network takes everything, and waits from the first byte that it does not."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        for layer in _layers(transport):
            layer.set_write_buffer_limits(high=1, low=0)  # with 0 and 0 TLS would pause and never go on
        _read_little(transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)

    def shutdown(self) -> None:
        """The server goes away: the application is told, says farewell and closes. (uvicorn would close first.)"""
        if self.handshake_complete and not self.close_sent:
            self.stop_keepalive()
            self.queue.put_nowait({"type": "websocket.disconnect", "code": 1012, "reason": ""})
        else:
            super().shutdown()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # refused in good order, which uvicorn would log as a failure

    async def run_asgi(self) -> None:
        try:
            await super().run_asgi()
        finally:
            # Closing waits for what was written to be taken; a client that is gone will not take it for minutes.
            self.loop.call_later(_ABORT_S, self.transport.abort)


def _read_little(transport: Any) -> None:
    """asyncio has no public way. Its transports read into memory of their own, as much at once as that has room."""
    tls = getattr(transport, "_ssl_protocol", None)
    if tls is None:
        transport.max_size = _READ_BUFFER
    else:
        tls._ssl_buffer_view = memoryview(bytearray(_READ_BUFFER))


def _layers(transport: asyncio.BaseTransport) -> list[asyncio.WriteTransport]:
    """The transport, and under TLS the one below, which has a buffer of its own."""
    layers = [cast(asyncio.WriteTransport, transport)]
    below: Any = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
    return layers if below is None else [*layers, below]
