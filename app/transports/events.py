"""Events as every transport writes and reads them: JSON objects with a ``type``, one a message."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from app.dialogue.ports import WireEvent

MESSAGE_LIMIT = 64 * 1024
"""Bytes of one message from the client."""
BACKLOG_LIMIT = 1 << 20
"""Bytes of events that may wait for a client whose network takes none: some minutes of them."""


def encode(event: WireEvent) -> str:
    """Escaped: a lone surrogate cannot be sent as UTF-8."""
    return json.dumps(event, separators=(",", ":"))


def refusal(code: str, message: str) -> WireEvent:
    """The event that tells a client what was wrong with its own."""
    return {"type": "error", "error": {"type": "invalid_request_error", "code": code, "message": message}}


class EventReader:
    """Hands the client's messages to ``receive`` and answers what is no event with ``send``."""

    def __init__(self, receive: Callable[[WireEvent], None], send: Callable[[WireEvent], None]) -> None:
        self._receive = receive
        self._send = send

    def read(self, message: Any) -> None:
        """The next message, whatever it is."""
        if not isinstance(message, str):
            self._refuse("Send events as text, not binary.")
        elif len(message.encode("utf-8", "replace")) > MESSAGE_LIMIT:
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
        self._send(refusal("invalid_request", message))
