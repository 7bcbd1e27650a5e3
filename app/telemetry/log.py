"""Structured logs: one line per event, ``key=value``, with session and turn ids.

Text, audio and secrets never belong in a log line; callers pass ids, counts and codes.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import TextIO, TypeAlias

Field: TypeAlias = str | int | float | bool | None

_FIELDS = "parley_fields"
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/+-")
_VALUE_LIMIT = 400
"""Characters; a longer value is cut so that one event stays one readable line."""


class KeyValueFormatter(logging.Formatter):
    """``2026-01-02T03:04:05.678Z info parley.calls call_opened session=s_1 transport=webrtc``."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        parts = [stamp, record.levelname.lower(), record.name, _one_line(record.getMessage())]
        fields: dict[str, Field] = getattr(record, _FIELDS, {})
        parts += [f"{key}={_value(value)}" for key, value in fields.items() if value is not None]
        line = " ".join(parts)
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def configure(level: str, stream: TextIO | None = None) -> None:
    """Send all logs of the process to ``stream`` (stderr by default) in the one format. Idempotent."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old.formatter, KeyValueFormatter):
            root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for chatty in ("aioice", "aiortc", "httpx", "httpcore", "uvicorn.access"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def log_event(
    logger: logging.Logger,
    event: str,
    /,
    *,
    level: int = logging.INFO,
    error: BaseException | None = None,
    **fields: Field,
) -> None:
    """Log ``event`` (a snake_case name) with ``fields``; ``error`` adds its traceback."""
    if logger.isEnabledFor(level):
        logger.log(level, event, extra={_FIELDS: fields}, exc_info=error)


def _value(value: Field) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = str(value)
    if len(text) > _VALUE_LIMIT:
        text = text[:_VALUE_LIMIT] + "…"
    if text and all(char in _BARE for char in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_one_line(escaped)}"'


def _one_line(text: str) -> str:
    """No line breaks or control characters: what a client sends must not forge a second event."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
