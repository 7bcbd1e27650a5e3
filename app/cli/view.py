"""How a conversation is shown: as plain lines, or as a picture that keeps still (``app.cli.screen``)."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, TextIO

from app.cli.conversation_lines import ConversationLines, is_said
from app.cli.keys import screen
from app.dialogue.ports import WireEvent


class View(Protocol):
    """All calls belong on the event loop; none blocks it for long. A context manager: what it changed it puts back."""

    def event(self, event: WireEvent) -> None:
        """Show what happened in the session."""
        ...

    def say(self, line: str) -> None:
        """Show a remark of the program's own."""
        ...

    def hint(self, text: str) -> None:
        """Say which keys do what now."""
        ...

    def typing(self, text: str) -> None:
        """Show what is being typed and not sent yet."""
        ...

    def watch_levels(self, levels: Callable[[], tuple[float, float]]) -> None:
        """Where to read how loud user and assistant are, dBFS."""
        ...

    def __enter__(self) -> View: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class PlainView:
    """Lines, each whole when it comes: for logs, pipes, and readers of every kind. Where standard output is no terminal
    it gets the conversation alone, and standard error the rest."""

    def __init__(self) -> None:
        self._lines = ConversationLines()
        self._unread = False

    def event(self, event: WireEvent) -> None:
        for line in self._lines.feed(event):
            self._write(line, sys.stdout if is_said(line) else screen())

    def say(self, line: str) -> None:
        self._write(line, screen())

    def _write(self, line: str, to: TextIO) -> None:
        if self._unread:
            return
        try:
            print(line, file=to, flush=True)
        except OSError:
            # Whoever read this has gone, as `head` does. A session in whose events this is must not break: it ends
            # as with Ctrl-C.
            self._unread = True
            signal.raise_signal(signal.SIGINT)

    def hint(self, text: str) -> None:
        self.say(f"· {text}")

    def typing(self, text: str) -> None:
        return None

    def watch_levels(self, levels: Callable[[], tuple[float, float]]) -> None:
        return None

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        return None
