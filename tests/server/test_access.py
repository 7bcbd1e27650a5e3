from __future__ import annotations

import pytest

from app.config.settings import ServerSettings
from app.server.access import Access, is_loopback


def access(**server: object) -> Access:
    return Access.from_settings(ServerSettings.model_validate(server))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("app.localhost", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("192.168.1.4", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
    ],
)
def test_loopback_is_told_from_other_hosts(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_a_loopback_bind_needs_no_token_and_any_other_gets_one() -> None:
    assert access(host="127.0.0.1").token == ""
    made, other = access(host="0.0.0.0").token, access(host="0.0.0.0").token
    assert len(made) >= 32
    assert made != other
    assert access(host="192.168.1.4", token="mine").token == "mine"
    assert access(host="127.0.0.1", token="mine").token == "mine", "a token that was set counts on loopback too"


def test_only_the_exact_token_as_bearer_opens() -> None:
    rules = access(host="0.0.0.0", token="s3cret")
    assert rules.accepts_token("Bearer s3cret")
    assert rules.accepts_token("bearer s3cret")
    for wrong in (None, "", "s3cret", "Basic s3cret", "Bearer s3cre", "Bearer s3cret2", "Bearer é", "Bearer"):
        assert not rules.accepts_token(wrong), wrong


@pytest.mark.parametrize(
    ("origin", "host", "expected"),
    [
        (None, "127.0.0.1:8080", True),
        ("http://127.0.0.1:8080", "127.0.0.1:8080", True),
        ("http://localhost:8080", "127.0.0.1:8080", True),
        ("http://localhost:3000", "127.0.0.1:8080", True),
        ("https://talk.example", "127.0.0.1:8080", True),
        ("https://TALK.example/", "127.0.0.1:8080", True),
        ("https://evil.example", "127.0.0.1:8080", False),
        ("https://talk.example.evil.example", "127.0.0.1:8080", False),
        ("http://localhost.evil.example", "127.0.0.1:8080", False),
        ("http://evil.example@127.0.0.1:8080", "127.0.0.1:8080", False),
        ("null", "127.0.0.1:8080", False),
        ("", "127.0.0.1:8080", False),
        ("file://", "127.0.0.1:8080", False),
        ("http://[::1", "127.0.0.1:8080", False),
    ],
)
def test_origins_of_other_sites_are_refused_on_loopback(origin: str | None, host: str, expected: bool) -> None:
    assert access(allowed_origins=("https://talk.example",)).accepts_origin(origin, host) is expected


def test_a_public_bind_takes_its_own_origin_but_not_another_local_page() -> None:
    rules = access(host="0.0.0.0", token="x")
    assert rules.accepts_origin("https://box.lan:8443", "box.lan:8443")
    assert not rules.accepts_origin("http://localhost:3000", "box.lan:8443")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:8080", True),
        ("localhost:8080", True),
        ("[::1]:8080", True),
        ("talk.example", True),
        ("rebound.evil.example:8080", False),
        ("", False),
        (None, False),
    ],
)
def test_a_loopback_bind_answers_only_to_its_own_names(host: str | None, expected: bool) -> None:
    assert access(allowed_origins=("https://talk.example",)).accepts_host(host) is expected
