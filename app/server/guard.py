"""The ASGI layer around every request and WebSocket: Host, Origin and token checks, and the security headers."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.server.access import Access
from app.server.openai import ApiError
from app.server.replies import deny, error_response

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self' blob:; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "microphone=(self), autoplay=(self), camera=(), geolocation=()",
}

_OPEN_PATHS = frozenset({"/healthz", "/readyz", "/config.json"})
"""Asked before a token is known; they tell nothing worth one without it."""
TOKEN_SUBPROTOCOL = "parley.token."
_WRONG_HOST = "This server answers only to localhost; for another name add its origin to server.allowed_origins."
_WRONG_ORIGIN = "Pages of this origin may not use this server; add it to server.allowed_origins to let them."
_SIGNALLING = ("/offer", "/calls/", "/check/", "/sessions")
_API = "/v1/"
_GUARDED = (*_SIGNALLING, _API, "/metrics")


class Guard:
    """Refuses what ``access`` does not allow; the page's own files need no token, or nobody could enter one."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        is_socket = scope["type"] == "websocket"
        refusal = self._socket_refusal(scope) if is_socket else self._refusal(scope)
        if refusal is not None and is_socket:
            await deny(refusal, scope, receive, send_with_headers)
        else:
            await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host, path = headers.get("host"), scope["path"]
        refuse = _refuse_api if path.startswith(_API) else _refuse
        if not self._access.accepts_host(host):
            return refuse(421, "wrong_host", _WRONG_HOST)
        if path in _OPEN_PATHS or not path.startswith(_GUARDED) or scope["method"] == "OPTIONS":
            return None
        if path.startswith((*_SIGNALLING, _API)) and not self._access.accepts_origin(headers.get("origin"), host):
            return refuse(403, "wrong_origin", _WRONG_ORIGIN)
        is_api = path.startswith(_API)
        accepts = self._access.accepts_api_key if is_api else self._access.accepts_token
        if not accepts(headers.get("authorization")):
            return refuse(
                401,
                "invalid_api_key" if is_api else "wrong_token",
                "This server wants the token that it printed at start (or server.token"
                f"{', or one of server.api_keys' if is_api else ''}), as Authorization: Bearer.",
            )
        return None

    def _socket_refusal(self, scope: Scope) -> Response | None:
        """No WebSocket is open to everyone: other than for requests, browsers let any page begin one."""
        headers = Headers(scope=scope)
        host = headers.get("host")
        if not self._access.accepts_host(host):
            return _refuse(421, "wrong_host", _WRONG_HOST)
        if not self._access.accepts_origin(headers.get("origin"), host):
            return _refuse(403, "wrong_origin", _WRONG_ORIGIN)
        if not self._access.accepts_token(headers.get("authorization") or _bearer(scope["subprotocols"])):
            return _refuse(
                401,
                "wrong_token",
                "This server wants the token that it printed at start (or server.token), as Authorization: Bearer, "
                f"or base64url after {TOKEN_SUBPROTOCOL} as a second subprotocol.",
            )
        return None


def _bearer(subprotocols: Iterable[str]) -> str | None:
    """The token as a header would have it: a page can give its WebSocket no headers, only subprotocols."""
    for name in subprotocols:
        if name.startswith(TOKEN_SUBPROTOCOL):
            encoded = name.removeprefix(TOKEN_SUBPROTOCOL)
            try:
                return "Bearer " + base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
            except ValueError:
                return None
    return None


def _refuse(status: int, code: str, message: str) -> Response:
    return error_response(status, code, message, headers=_challenge(status))


def _refuse_api(status: int, code: str, message: str) -> Response:
    return ApiError(status, message, code=code).response(_challenge(status))


def _challenge(status: int) -> dict[str, str]:
    return {"www-authenticate": 'Bearer realm="parley"'} if status == 401 else {}
