"""Calls over a WebSocket, for where UDP cannot pass: sound as binary messages, events as text."""

from app.transports.websocket.call import Socket, SocketClosed
from app.transports.websocket.calls import SocketCalls

__all__ = ["Socket", "SocketCalls", "SocketClosed"]
