"""What people paste after --server."""

from __future__ import annotations

import pytest

from app.client import parse_address
from app.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "websocket"),
    [
        ("http://10.0.0.2:8080/", "ws://10.0.0.2:8080/call"),
        ("https://parley.example/#token=abc", "wss://parley.example:443/call"),
        ("kitchen", "ws://kitchen:8080/call"),
        ("kitchen:9000", "ws://kitchen:9000/call"),
        ("http://[::1]:8080", "ws://[::1]:8080/call"),
        ("wss://example/behind/proxy/", "wss://example:443/behind/proxy/call"),
    ],
)
def test_an_address_leads_to_its_websocket(given: str, websocket: str) -> None:
    assert parse_address(given).websocket_url == websocket


def test_the_token_of_the_url_is_used_unless_another_is_given() -> None:
    assert parse_address("http://host/#token=a%2Bb").token == "a+b"
    assert parse_address("http://host/#token=a", "b").token == "b"


def test_a_token_of_any_characters_fits_into_the_header() -> None:
    assert parse_address("host", "ü/=?").subprotocols == ("parley", "parley.token.w7wvPT8")
    assert parse_address("host").subprotocols == ("parley",)


@pytest.mark.parametrize("given", ["ftp://host", "http://", "http://host:port", "http://host:99999"])
def test_what_is_no_address_is_refused_with_the_way_on(given: str) -> None:
    with pytest.raises(ConfigError, match="that the server prints"):
        parse_address(given)


def test_a_refusal_does_not_repeat_the_token() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_address("ftp://host/#token=secret")
    assert "secret" not in str(caught.value)
