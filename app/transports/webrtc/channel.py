"""The data channel: JSON events both ways, bounded in every direction."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

import aiortc.rtcsctptransport
from aiortc import RTCDataChannel

from app.dialogue.ports import WireEvent

LABEL = "oai-events"
MESSAGE_LIMIT = 64 * 1024
"""Bytes of one message from the client."""
_WAITING_EVENTS = 256
"""Kept until the channel opens; the oldest go first."""
_BUFFER_LIMIT = 1 << 20
"""Bytes that may wait in SCTP: some minutes of events."""

# Above this an SCTP packet in DTLS in UDP can exceed the path's MTU, and is lost on links without fragmentation.
aiortc.rtcsctptransport.USERDATA_MAX_LENGTH = min(1100, aiortc.rtcsctptransport.USERDATA_MAX_LENGTH)


class EventChannel:
    """Sends events as soon as the client has opened the channel; hands its messages to ``receive``.

    Events come in order and none is left out, or what the client shows would be wrong from then on. So a client
    whose network has taken none for so long that ``_BUFFER_LIMIT`` is reached is told nothing more, and ``overflowed``
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
        self._receive = receive
        self._on_message = on_message
        self._channel: RTCDataChannel | None = None
        self._waiting: deque[str] = deque(maxlen=_WAITING_EVENTS)

    def attach(self, channel: RTCDataChannel) -> None:
        """The client has created ``channel``. Other labels are ignored."""
        if channel.label != LABEL or self._channel is not None:
            return
        self._channel = channel
        channel.on("message", self._message)
        while self._waiting:
            self._transmit(self._waiting.popleft())

    def send(self, event: WireEvent) -> None:
        text = json.dumps(event, separators=(",", ":"))  # escaped: a lone surrogate cannot be sent as UTF-8
        if self._channel is None:
            self._waiting.append(text)
        else:
            self._transmit(text)

    def _transmit(self, text: str) -> None:
        channel = self._channel
        assert channel is not None
        if channel.readyState != "open" or self._overflow:
            return
        if channel.bufferedAmount + len(text) > _BUFFER_LIMIT:
            self._overflow = True
            self._overflowed()
        else:
            channel.send(text)

    def _message(self, message: Any) -> None:
        self._on_message()
        if not isinstance(message, str):
            self._refuse("Send events as text, not binary.")
        elif len(message.encode()) > MESSAGE_LIMIT:
            self._refuse(f"An event may have at most {MESSAGE_LIMIT // 1024} KiB.")
        else:
            self._parse(message)

    def _parse(self, message: str) -> None:
        try:
            event = json.loads(message)
        except (ValueError, RecursionError):
            self._refuse("The event is not valid JSON.")
            return
        if isinstance(event, dict):
            self._receive(event)
        else:
            self._refuse("An event must be a JSON object with a type (docs/events.md).")

    def _refuse(self, message: str) -> None:
        self.send(
            {"type": "error", "error": {"type": "invalid_request_error", "code": "invalid_request", "message": message}}
        )
