"""What ``models pull`` tells while it works."""

from __future__ import annotations

import io

from rich.console import Console

from app.cli.models import progress_of


def test_each_step_is_a_line_when_it_begins_where_nobody_watches() -> None:
    out = io.StringIO()
    with progress_of(Console(file=out)) as report:
        for done in (0, 4_000_000, 8_000_000):
            report("fetching it", done, 8_000_000)
        report("unpacking it", 0, 0)
        assert out.getvalue() == "fetching it, 8 MB\nunpacking it\n"
    assert out.getvalue() == "fetching it, 8 MB\nunpacking it\n"


def test_a_terminal_shows_a_step_of_unknown_length_without_sizes() -> None:
    out = io.StringIO()
    with progress_of(Console(file=out, force_terminal=True, width=100, legacy_windows=False)) as report:
        report("fetching it", 4_000_000, 8_000_000)
        report("unpacking it", 0, 0)
    steps = out.getvalue().splitlines()
    assert any("4.0/8.0 MB" in line for line in steps if "fetching" in line)
    assert not any("bytes" in line or "/s" in line for line in steps if "unpacking" in line)
