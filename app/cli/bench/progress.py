"""How far a benchmark has come: a bar on a terminal; elsewhere plain lines, so that a captured run shows that it lives."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class Steps:
    """Tells of ``total`` steps, by ``bar`` if that is shown, or by lines at least ``line_s`` apart."""

    def __init__(self, bar: Progress, task: TaskID, total: int, line_s: float) -> None:
        self._bar = bar
        self._task = task
        self._total = total
        self._line_s = line_s
        self._line_at = time.monotonic()
        self.done = 0

    def begin(self, what: str) -> None:
        """Say what goes on; it finishes no step."""
        self._bar.update(self._task, description=what)
        self._line(what)

    def finish(self, what: str) -> None:
        """Say what has been done; it was one step."""
        self.done += 1
        self._bar.update(self._task, advance=1, description=what)
        self._line(f"{self.done}/{self._total} {what}")

    def _line(self, text: str) -> None:
        now = time.monotonic()
        if self._bar.disable and now - self._line_at >= self._line_s:
            self._line_at = now
            print(text, file=sys.stderr, flush=True)


@contextmanager
def steps(total: int, unit: str, *, line_s: float = 0.0) -> Iterator[Steps]:
    """Of ``total`` ``unit`` (a plural). An interruption is told in one line that says how far it had come."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    # Rarely drawn: the cores belong to what is measured.
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal, refresh_per_second=2)
    told = Steps(bar, bar.add_task("", total=total), total, line_s)
    try:
        with bar:
            yield told
    except (KeyboardInterrupt, asyncio.CancelledError):
        print(f"parley: interrupted after {told.done} of {total} {unit}", file=sys.stderr)
        raise
