"""Where a server is: from what people paste after ``--server``."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from app.errors import ConfigError

_SECURE = {"http": False, "ws": False, "https": True, "wss": True}
_DEFAULT_PORT = 8080


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """``token`` is empty where none is wanted."""

    host: str
    port: int
    secure: bool
    token: str = ""
    path: str = ""
    """Before ``/call``, where the server stands behind a proxy."""

    @property
    def url(self) -> str:
        """As people read it, without the token."""
        return f"{'https' if self.secure else 'http'}://{self._authority}{self.path}"

    @property
    def websocket_url(self) -> str:
        return f"{'wss' if self.secure else 'ws'}://{self._authority}{self.path}/call"

    @property
    def subprotocols(self) -> tuple[str, ...]:
        """What the server wants to be offered: its own name, and the token in a form that the header can carry."""
        if not self.token:
            return ("parley",)
        encoded = base64.urlsafe_b64encode(self.token.encode()).decode().rstrip("=")
        return ("parley", f"parley.token.{encoded}")

    @property
    def _authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(given: str, token: str = "") -> ServerAddress:
    """``given`` is a URL as the server prints it (``http://host:8080/#token=...``), or just ``host`` or ``host:port``.

    ``token`` wins over the one in the URL. Raises ConfigError.
    """
    text = given.strip()
    has_scheme = "://" in text
    try:
        parts = urlsplit(text if has_scheme else f"http://{text}")
        port = parts.port
    except ValueError as error:
        raise _wrong(given, str(error)) from error
    if parts.scheme not in _SECURE:
        raise _wrong(given, f"{parts.scheme}:// is not a web address")
    if not parts.hostname:
        raise _wrong(given, "the name of the machine is missing")
    secure = _SECURE[parts.scheme]
    if port is None:
        port = (443 if secure else 80) if has_scheme else _DEFAULT_PORT
    in_url = parse_qs(parts.fragment).get("token", [""])[0]
    return ServerAddress(parts.hostname, port, secure, token or in_url, parts.path.rstrip("/"))


def _wrong(given: str, why: str) -> ConfigError:
    shown = given.partition("#")[0]
    return ConfigError(f"--server {shown!r}: {why}. Give the address that the server prints, like http://host:8080.")
