"""What ``models pull`` tells while it works."""

from __future__ import annotations

import io

import pytest
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


@pytest.mark.parametrize(("total", "sizes"), [(8_000_000, True), (0, False)])
def test_a_terminal_shows_sizes_only_of_what_has_them(total: int, sizes: bool) -> None:
    out = io.StringIO()
    with progress_of(Console(file=out, force_terminal=True, width=100, legacy_windows=False)) as report:
        report("at work", 4_000_000, total)
    assert "at work" in out.getvalue()
    assert ("4.0/8.0 MB" in out.getvalue(), "bytes" in out.getvalue()) == (sizes, False)
