"""The data channel: JSON events both ways, bounded in every direction."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import aiortc.rtcsctptransport
from aiortc import RTCDataChannel

from app.dialogue.ports import WireEvent
from app.transports.events import BACKLOG_LIMIT, EventReader, encode

LABEL = "oai-events"

# Above this an SCTP packet in DTLS in UDP can exceed the path's MTU, and is lost on links without fragmentation.
aiortc.rtcsctptransport.USERDATA_MAX_LENGTH = min(1100, aiortc.rtcsctptransport.USERDATA_MAX_LENGTH)


class EventChannel:
    """Sends events as soon as the client has opened the channel; hands its messages to ``receive``.

    Events come in order and none is left out, or what the client shows would be wrong from then on. So a client
    whose network has taken none for so long that ``BACKLOG_LIMIT`` is reached is told nothing more, and ``overflowed``
    is called to end the call.
    """

    def __init__(
        self,
        receive: Callable[[WireEvent], None],
        on_message: Callable[[], None],
        overflowed: Callable[[], None],
    ) -> None:
        self._overflowed = overflowed
        self._overflow = False
        self._reader = EventReader(receive, self.send)
        self._on_message = on_message
        self._channel: RTCDataChannel | None = None
        self._waiting: deque[str] = deque()
        """Until the channel opens."""
        self._waiting_bytes = 0

    def attach(self, channel: RTCDataChannel) -> None:
        """The client has created ``channel``. Other labels are ignored."""
        if channel.label != LABEL or self._channel is not None:
            return
        self._channel = channel
        channel.on("message", self._message)
        while self._waiting:
            self._transmit(self._waiting.popleft())

    def send(self, event: WireEvent) -> None:
        text = encode(event)
        if self._channel is not None:
            self._transmit(text)
        elif not self._overflow:
            self._wait(text)

    def _wait(self, text: str) -> None:
        self._waiting.append(text)
        self._waiting_bytes += len(text)
        if self._waiting_bytes > BACKLOG_LIMIT:
            self._waiting.clear()
            self._overflow = True
            self._overflowed()

    def _transmit(self, text: str) -> None:
        channel = self._channel
        assert channel is not None
        if channel.readyState != "open" or self._overflow:
            return
        if channel.bufferedAmount + len(text) > BACKLOG_LIMIT:
            self._overflow = True
            self._overflowed()
        else:
            channel.send(text)

    def _message(self, message: Any) -> None:
        self._on_message()
        self._reader.read(message)
