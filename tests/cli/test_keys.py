"""What a terminal sends, as keys."""

from __future__ import annotations

import os
import sys

import pytest

from app.cli.keys import Key, KeyParser
from tests.kit.terminal import Terminal


def names(*parts: bytes) -> list[str]:
    parser = KeyParser()
    return [key.name for part in parts for key in parser.feed(part)]


def test_plain_bytes_are_keys_and_control_characters_have_names() -> None:
    assert names(b"a \r\x7f\x15\x03\x04") == ["a", "space", "enter", "backspace", "clear", "interrupt", "end"]


def test_a_character_whose_bytes_come_apart_is_one_key() -> None:
    assert names("你".encode()[:1], "你".encode()[1:]) == ["你"]


def test_arrows_and_function_keys_are_no_escape_even_when_they_come_apart() -> None:
    assert names(b"\x1b[A", b"\x1bOP", b"\x1b[", b"15~", b"x") == ["x"]


def test_an_escape_alone_is_the_key_once_nothing_follows() -> None:
    parser = KeyParser()
    assert parser.feed(b"\x1b") == []
    assert parser.waiting
    assert parser.timed_out() == [Key("escape")]
    assert not parser.waiting


def test_a_terminal_that_reports_releases_is_understood() -> None:
    parser = KeyParser()
    assert parser.feed(b"\x1b[?0u\x1b[?62;c") == []
    assert parser.reports_releases
    keys = parser.feed(b"\x1b[32;1:1u\x1b[32;1:2u\x1b[32;1:3u\x1b[113u\x1b[99;5u\x1b[27u")
    assert [(key.name, key.action) for key in keys] == [
        ("space", "press"),
        ("space", "repeat"),
        ("space", "release"),
        ("q", "press"),
        ("interrupt", "press"),
        ("escape", "press"),
    ]


def test_a_terminal_without_that_protocol_answers_only_what_it_is() -> None:
    parser = KeyParser()
    assert parser.feed(b"\x1b[?62;22c") == []
    assert not parser.reports_releases


@pytest.mark.parametrize(("key", "written"), [("a", "a"), ("space", " "), ("你", "你"), ("escape", ""), ("\x01", "")])
def test_only_printable_keys_write(key: str, written: str) -> None:
    assert Key(key).character == written


def test_a_question_is_to_be_read_before_it_is_answered_even_while_standard_error_is_kept_for_later() -> None:
    program = (
        "from app.cli.keys import ask\nfrom app.cli.quiet import quiet_errors\n"
        "with quiet_errors():\n    print('It was', ask('Trust it? [y/N] ', at_end='n'), flush=True)"
    )
    with Terminal([sys.executable, "-c", program], os.environ) as terminal:
        terminal.wait_for("Trust it? [y/N]", 20)
        terminal.type("Yes\n")
        terminal.wait_for("It was yes", 10)
