"""Events as every transport writes and reads them: JSON objects with a ``type``, one a message."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from app.dialogue.ports import WireEvent

MESSAGE_LIMIT = 64 * 1024
"""Bytes of one message from the client."""
BACKLOG_LIMIT = 1 << 20
"""Bytes of events that may wait for a client whose network takes none: some minutes of them."""


_DEEPEST = 32
"""Levels of objects and lists. Nothing that is meant has ten, and who walks through thousands runs out of stack."""


def parse(message: str | bytes) -> Any:
    """The JSON value that a client has sent. Raises ValueError where it is none, or nested out of all reason."""
    try:
        value = json.loads(message)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _within(outer)]
        if not level:
            return value
    raise ValueError("nested too deeply")


def _within(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


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
            event = parse(message)
        except ValueError:
            self._refuse("The event is not valid JSON, or nested too deeply.")
            return
        if isinstance(event, dict):
            self._receive(event)
        else:
            self._refuse("An event must be a JSON object with a type (docs/events.md).")

    def _refuse(self, message: str) -> None:
        self._send(refusal("invalid_request", message))
