"""Who may talk to the server: bind address, token, Origin and Host.

A loopback bind is open to the programs of this machine, but not to other sites' pages: their Origin is
refused, and so is a Host that does not name this machine (DNS rebinding). Any other bind wants a token.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.config.settings import ServerSettings

_TOKEN_BYTES = 24


def is_loopback(host: str) -> bool:
    """Whether ``host`` (a name or an address, without port) can only be this machine."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Access:
    """The rules for one running server."""

    token: str
    """Wanted as ``Authorization: Bearer``; empty for none."""
    loopback: bool
    """Whether the server is bound to loopback only."""
    allowed_origins: frozenset[str]
    api_keys: frozenset[str] = frozenset()
    """Taken in place of the token, under /v1 only."""

    @classmethod
    def from_settings(cls, server: ServerSettings) -> Access:
        """The rules that ``server`` asks for; makes a token where one is needed and none is set."""
        loopback = is_loopback(server.address)
        token = server.token or ("" if loopback else secrets.token_urlsafe(_TOKEN_BYTES))
        origins = frozenset(origin.rstrip("/").lower() for origin in server.allowed_origins)
        return cls(token, loopback, origins, frozenset(filter(None, server.api_keys)))

    def accepts_token(self, authorization: str | None) -> bool:
        """Compare an Authorization header in constant time."""
        return not self.token or _is_one_of(authorization, (self.token,))

    def accepts_api_key(self, authorization: str | None) -> bool:
        """The same for the API, where each client may have a key of its own."""
        keys = (*self.api_keys, *filter(None, (self.token,)))
        return not keys or _is_one_of(authorization, keys)

    def accepts_origin(self, origin: str | None, host: str | None) -> bool:
        """Whether a page of ``origin`` may call; None is a client that is no browser (those always send one)."""
        if origin is None:
            return True
        normal = origin.rstrip("/").lower()
        if normal in self.allowed_origins:
            return True
        parts = _split(normal)
        if parts is None:
            return False
        if host is not None and parts[1] == host.lower():
            return True
        return self.loopback and is_loopback(parts[0])

    def accepts_host(self, host: str | None) -> bool:
        """Whether a request that names ``host`` is meant for this server."""
        if not self.loopback:
            return True
        name = _split(f"http://{(host or '').lower()}")
        if name is None:
            return False
        return is_loopback(name[0]) or any(
            (parts := _split(origin)) is not None and parts[1] == (host or "").lower()
            for origin in self.allowed_origins
        )


def _is_one_of(authorization: str | None, keys: Iterable[str]) -> bool:
    scheme, _, given = (authorization or "").partition(" ")
    given_bytes = given.strip().encode("utf-8", "replace")
    # All of them, so that the time does not tell which one nearly matched.
    matches = [hmac.compare_digest(given_bytes, key.encode()) for key in keys]
    return scheme.lower() == "bearer" and any(matches)


def _split(origin: str) -> tuple[str, str] | None:
    """(host name, host:port as written) of an http(s) origin; None for anything else, such as "null"."""
    try:
        parts = urlsplit(origin)
        name = parts.hostname
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not name or parts.path or parts.query or "@" in parts.netloc:
        return None
    return name, parts.netloc
