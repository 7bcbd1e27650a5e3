"""ICE servers as they stand in the configuration: "stun:host:port" or "turn:user:password@host:port"."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class IceServer:
    """``url`` as RFC 7064 and RFC 7065 write it, which know no credentials, and those beside it."""

    url: str
    username: str | None = None
    credential: str | None = None

    def for_browser(self) -> dict[str, str]:
        """As RTCPeerConnection wants it."""
        named = {"urls": self.url, "username": self.username, "credential": self.credential}
        return {name: value for name, value in named.items() if value is not None}


def ice_server(entry: str) -> IceServer:
    """Read one entry of ``server.ice_servers``; "@" or ":" inside a name or password is written %40 or %3A."""
    scheme, _, rest = entry.partition(":")
    credentials, at, address = rest.rpartition("@")
    if not at:
        return IceServer(entry)
    username, _, credential = credentials.partition(":")
    return IceServer(f"{scheme}:{address}", unquote(username), unquote(credential))
