"""What every peer connection of ours knows of ICE (RFC 8445): whom it asks, and which candidates it ignores."""

from __future__ import annotations

from aiortc import RTCConfiguration, RTCIceServer

from app.config.settings import ServerSettings
from app.transports.ice import ice_server


def configuration(server: ServerSettings) -> RTCConfiguration:
    """With the configured servers alone: aiortc would ask a public one, which a machine without internet waits for."""
    return RTCConfiguration(
        iceServers=[
            RTCIceServer(urls=entry.url, username=entry.username, credential=entry.credential)
            for entry in map(ice_server, server.ice_servers)
        ]
    )


def without_mdns(sdp: str) -> str:
    """``sdp`` without ``.local`` candidates (RFC 8828 mode): resolving them costs a second and mostly fails.

    The client's checks tell its address anyway (peer-reflexive candidates, RFC 8445 section 7.3.1.3), as
    long as nothing says that there are no more candidates to come.
    """
    lines = sdp.splitlines(keepends=True)
    if not any(".local " in line for line in lines if line.startswith("a=candidate:")):
        return sdp
    return "".join(
        line
        for line in lines
        if not line.startswith("a=end-of-candidates") and not (line.startswith("a=candidate:") and ".local " in line)
    )
