from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from app.telemetry.log import configure, log_event


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure("info", stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def test_an_event_is_one_line_of_keys_and_values(lines: io.StringIO) -> None:
    log_event(logging.getLogger("parley.test"), "call_opened", session="s_1", turn=None, took_ms=12.3456, ok=True)
    stamp, rest = lines.getvalue().split(" ", 1)
    assert stamp.endswith("Z")
    assert rest == "info parley.test call_opened session=s_1 took_ms=12.35 ok=True\n"


def test_values_from_outside_cannot_forge_a_second_event(lines: io.StringIO) -> None:
    log_event(logging.getLogger("parley.test"), "refused", reason='a "b"\n2026 info forged\r\x1b[31m', empty="")
    assert lines.getvalue().count("\n") == 1
    assert r'reason="a \"b\"\n2026 info forged\r\x1b[31m" empty=""' in lines.getvalue()


def test_a_huge_value_is_cut(lines: io.StringIO) -> None:
    log_event(logging.getLogger("parley.test"), "refused", reason="x" * 100_000)
    assert len(lines.getvalue()) < 600


def test_the_level_filters_and_configuring_twice_does_not_double(lines: io.StringIO) -> None:
    configure("warning", lines)
    log_event(logging.getLogger("parley.test"), "quiet")
    log_event(logging.getLogger("parley.test"), "loud", level=logging.WARNING)
    assert lines.getvalue().count("loud") == 1
    assert "quiet" not in lines.getvalue()
