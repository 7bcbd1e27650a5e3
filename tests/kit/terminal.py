"""A program in a pseudo-terminal, and what a person in front of it would see (pyte is the terminal)."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyte

_COLUMNS, _LINES = 90, 24


def _take_terminal() -> None:
    """In the child: the terminal is its own, so that Ctrl-C is a signal and a closed window hangs up."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """Use as a context manager. ``raw`` keeps every byte that the program wrote."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], *, columns: int = _COLUMNS, lines: int = _LINES
    ) -> None:
        self.raw = b""
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self._master, self._slave = os.openpty()
        self._set_size(columns, lines)
        self.at_start = self.attributes()
        self.process = subprocess.Popen(
            command,
            env={**env, "TERM": "xterm-256color", "COLUMNS": "", "LINES": ""},
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._slave)
        self._reader.join(1)
        os.close(self._master)

    def attributes(self) -> list[Any]:
        """As ``termios.tcgetattr`` tells them: echo, line mode, control characters."""
        return termios.tcgetattr(self._slave)

    @property
    def text(self) -> str:
        """All that is on the screen, its wrapped lines joined."""
        return re.sub(r"\s+", " ", " ".join(self.rows)).strip()

    @property
    def rows(self) -> list[str]:
        with self._lock:
            return [line.rstrip() for line in self._screen.display]

    @property
    def struck(self) -> str:
        """What is struck through."""
        return self._where(lambda char: char.strikethrough)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def resize(self, columns: int, lines: int) -> None:
        with self._lock:
            self._screen.resize(lines, columns)
        self._set_size(columns, lines)
        os.killpg(self.process.pid, signal.SIGWINCH)

    def wait_for(self, wanted: str | Callable[[str], bool], timeout_s: float) -> str:
        """Until the screen shows it; the screen's text then."""
        deadline = time.monotonic() + timeout_s
        while True:
            text = self.text
            if wanted in text if isinstance(wanted, str) else wanted(text):
                return text
            assert time.monotonic() < deadline, f"{wanted!r} is not to be seen:\n" + "\n".join(self.rows)
            time.sleep(0.05)

    def wait(self, timeout_s: float) -> int:
        """The program's status, once all that it wrote has been read."""
        status = self.process.wait(timeout_s)
        time.sleep(0.1)
        return status

    def _where(self, chosen: Callable[[pyte.screens.Char], bool]) -> str:
        with self._lock:
            buffer = self._screen.buffer
            rows = [
                "".join(
                    buffer[row][column].data for column in range(self._screen.columns) if chosen(buffer[row][column])
                )
                for row in range(self._screen.lines)
            ]
        return " ".join(" ".join(rows).split())

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            with self._lock:
                self.raw += data
                # pyte takes the keyboard queries for text
                self._stream.feed(re.sub(rb"\x1b\[[?<>]?\d*u", b"", data))
