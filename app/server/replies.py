"""Errors as JSON: ``{"error": {"type", "code", "message"}}`` with the right status."""

from __future__ import annotations

import math

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from app.errors import (
    InvalidRequest,
    Overloaded,
    ParleyError,
    ResumeExpired,
    SessionLimit,
    StageTimeout,
    StageUnavailable,
)

_SESSION_RETRY_S = 10
"""Calls last minutes: asking again sooner only costs."""
CLOSE_CODES_FROM = 4000
"""A WebSocket that is refused is closed with this plus the status that an HTTP response would have."""


def error_response(
    status: int, code: str, message: str, *, retry_after_s: float | None = None, headers: dict[str, str] | None = None
) -> JSONResponse:
    """A JSON error; ``retry_after_s`` becomes a Retry-After header in whole seconds."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    all_headers = dict(headers or {})
    if retry_after_s is not None:
        all_headers["retry-after"] = str(max(1, math.ceil(retry_after_s)))
    body = {"error": {"type": kind, "code": code, "message": message}}
    return JSONResponse(body, status, headers={"cache-control": "no-store", **all_headers})


def from_parley_error(error: ParleyError) -> JSONResponse:
    """The response that a deliberate error deserves."""
    message = str(error)
    match error:
        case InvalidRequest():
            return error_response(400, error.code, message)
        case ResumeExpired():
            return error_response(410, error.code, message)
        case SessionLimit():
            return error_response(503, error.code, message, retry_after_s=_SESSION_RETRY_S)
        case Overloaded():
            return error_response(503, error.code, message, retry_after_s=error.retry_after_s)
        case StageUnavailable():
            return error_response(503, error.code, message, retry_after_s=2)
        case StageTimeout():
            return error_response(504, error.code, message)
        case _:
            return error_response(500, error.code, message)


async def deny(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a WebSocket before it is accepted: with ``response`` where the ASGI server can send one."""
    if "websocket.http.response" in scope.get("extensions", {}):
        await response(scope, receive, send)
    else:
        await send({"type": "websocket.close", "code": CLOSE_CODES_FROM + response.status_code, "reason": ""})
