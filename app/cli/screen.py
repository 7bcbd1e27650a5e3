"""The calm view: one picture that stays where it is, on the terminal's second screen (rich).

It is painted on a thread of its own: a terminal that takes nothing (Ctrl-S, a slow line) must not stop the sound.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from rich.console import Console, RenderableType
from rich.live import Live

from app.cli.picture import picture, said
from app.cli.transcript import Transcript
from app.dialogue.ports import WireEvent

_PAINT_S = 0.1
_STEP_DB = 1.5
"""Levels closer than this look the same: nothing is painted for them."""
_END_S = 0.5
_NO_LEVELS = (-80.0, -80.0)


class ScreenView:
    """Implements View. What was said is printed as plain text once the picture is gone, so that it is not lost."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._transcript = Transcript()
        self._hint = ""
        self._typing: str | None = None
        self._levels: Callable[[], tuple[float, float]] | None = None
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._ending = threading.Event()
        self._live = Live(console=self._console, screen=True, auto_refresh=False, get_renderable=self._picture,
                          redirect_stdout=False, redirect_stderr=False)  # fmt: skip
        self._painter = threading.Thread(target=self._paint, name="parley-screen", daemon=True)

    def event(self, event: WireEvent) -> None:
        with self._lock:
            self._transcript.feed(event)
        self._changed.set()

    def say(self, line: str) -> None:
        with self._lock:
            self._transcript.note(line)
        self._changed.set()

    def hint(self, text: str) -> None:
        self._hint = text
        self._changed.set()

    def typing(self, text: str) -> None:
        self._typing = text
        self._changed.set()

    def watch_levels(self, levels: Callable[[], tuple[float, float]]) -> None:
        self._levels = levels

    def __enter__(self) -> ScreenView:
        self._live.start()
        self._painter.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._changed.set()
        self._painter.join(_END_S)
        self._live.stop()
        for line in self._transcript.lines:
            for part in said(line, self._console, self._console.width):
                self._console.print(part, soft_wrap=True)

    def _picture(self) -> RenderableType:
        levels = None if self._levels is None else self._levels()
        with self._lock:
            return picture(
                self._transcript,
                self._console,
                width=self._console.width,
                height=self._console.height,
                levels=levels,
                hint=self._hint,
                typing=self._typing,
            )

    def _paint(self) -> None:
        """Ten pictures a second at most, and none that looks like the last one."""
        shown: object = None
        while not self._ending.is_set():
            self._changed.wait(_PAINT_S)
            changed = self._changed.is_set()
            self._changed.clear()
            levels = _NO_LEVELS if self._levels is None else self._levels()
            look = (self._console.size, *(round(level / _STEP_DB) for level in levels))
            if changed or look != shown:
                shown = look
                with suppress(OSError):  # the terminal has gone; the signal of that ends the program
                    self._live.refresh()
                self._ending.wait(_PAINT_S)
