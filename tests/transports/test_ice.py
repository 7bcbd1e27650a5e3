"""Entries of server.ice_servers, as both ends need them."""

from __future__ import annotations

import pytest
from aiortc import RTCIceServer
from aiortc.rtcicetransport import connection_kwargs

from app.transports.ice import IceServer, ice_server


@pytest.mark.parametrize(
    ("entry", "read"),
    [
        ("stun:stun.example.org:3478", IceServer("stun:stun.example.org:3478")),
        ("turn:turn.example.org", IceServer("turn:turn.example.org")),
        ("turn:ann:s3cret@turn.example.org:3478", IceServer("turn:turn.example.org:3478", "ann", "s3cret")),
        (
            "turns:ann%40home:a%3Ab@turn.example.org?transport=tcp",
            IceServer("turns:turn.example.org?transport=tcp", "ann@home", "a:b"),
        ),
        # coturn's time-limited names hold a colon, which must be written %3A.
        ("turn:1760000000%3Aann:x/y+z==@10.0.0.1", IceServer("turn:10.0.0.1", "1760000000:ann", "x/y+z==")),
    ],
)
def test_an_entry_is_an_address_and_maybe_credentials(entry: str, read: IceServer) -> None:
    assert ice_server(entry) == read


def test_the_page_is_given_credentials_only_where_there_are_some() -> None:
    assert ice_server("stun:a:1").for_browser() == {"urls": "stun:a:1"}
    assert ice_server("turn:u:p@a:1").for_browser() == {"urls": "turn:a:1", "username": "u", "credential": "p"}


def test_aiortc_understands_what_it_is_given() -> None:
    server = ice_server("turn:u:p@10.0.0.1:3479?transport=tcp")
    given = connection_kwargs([RTCIceServer(server.url, server.username, server.credential)])
    assert given["turn_server"] == ("10.0.0.1", 3479)
    assert (given["turn_username"], given["turn_password"], given["turn_transport"]) == ("u", "p", "tcp")
