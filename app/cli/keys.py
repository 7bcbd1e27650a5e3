"""Keys of a terminal as they are pressed, and, where it tells, let go.

Plain terminals report presses only. Those that speak the keyboard protocol of kitty
(https://sw.kovidgoyal.net/kitty/keyboard-protocol/) are asked for releases too.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, TextIO, TypeAlias

from app.errors import ConfigError

Action: TypeAlias = Literal["press", "repeat", "release"]
Attributes: TypeAlias = list[Any]
"""What ``termios.tcgetattr`` gives."""

_ASK = "\x1b[?u\x1b[c"
"""Which keyboard protocol? And what are you?, which every terminal answers, so that no answer to the first is known."""
_REPORT_ALL = "\x1b[>11u"
"""Flags 1 + 2 + 8: all keys as sequences, with their releases."""
_STOP_REPORTING = "\x1b[<u"
_SEQUENCE = re.compile(rb"\x1b\[[0-9;:?<>]*[@-~]|\x1bO.", re.DOTALL)
_KITTY_KEY = re.compile(rb"\x1b\[(\d+)(?::\d*)*(?:;(\d*)(?::(\d+))?)?u")
_KITTY_ANSWER = re.compile(rb"\x1b\[\?\d+u")
_ESCAPE_S = 0.05
"""An escape character alone for this long was the key and not the beginning of a sequence."""
_NAMES = {" ": "space", "\r": "enter", "\n": "enter", "\x1b": "escape", "\x7f": "backspace", "\b": "backspace",
          "\x15": "clear", "\x03": "interrupt", "\x04": "end"}  # fmt: skip
_ACTIONS: dict[bytes, Action] = {b"1": "press", b"2": "repeat", b"3": "release"}
_CONTROL = 4


@dataclass(frozen=True, slots=True)
class Key:
    """``name`` is the character, or "space", "enter", "escape", "backspace", "clear", "interrupt", "end"."""

    name: str
    action: Action = "press"

    @property
    def character(self) -> str:
        """What it writes; empty for keys that write nothing."""
        return " " if self.name == "space" else self.name if len(self.name) == 1 and self.name.isprintable() else ""


class KeyParser:
    """Bytes of a terminal become keys; sequences that mean none are left out. Pure."""

    def __init__(self) -> None:
        self._rest = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.reports_releases = False
        """Whether the terminal has answered that it can."""

    def feed(self, data: bytes) -> list[Key]:
        self._rest += data
        keys: list[Key] = []
        while self._rest:
            if self._rest[0] != 0x1B:
                end = self._rest.find(b"\x1b")
                plain = self._rest if end < 0 else self._rest[:end]
                self._rest = self._rest[len(plain) :]
                keys += [Key(_NAMES.get(char, char)) for char in self._decoder.decode(plain)]
                continue
            found = _SEQUENCE.match(self._rest)
            if found is None:
                if len(self._rest) > 1 and self._rest[1:2] not in b"[O":
                    self._rest = self._rest[1:]
                    keys.append(Key("escape"))
                    continue
                if len(self._rest) > 32:  # no sequence is as long
                    self._rest = b""
                break
            self._rest = self._rest[found.end() :]
            keys += self._sequence(found.group())
        return keys

    def timed_out(self) -> list[Key]:
        """Nothing came after an escape character: it was the key."""
        alone, self._rest = self._rest == b"\x1b", b""
        return [Key("escape")] if alone else []

    @property
    def waiting(self) -> bool:
        """Whether a sequence has begun and is not complete."""
        return bool(self._rest)

    def _sequence(self, data: bytes) -> list[Key]:
        if _KITTY_ANSWER.fullmatch(data):
            self.reports_releases = True
        found = _KITTY_KEY.fullmatch(data)
        if found is None:
            return []
        char = chr(int(found[1]))
        action = _ACTIONS.get(found[3] or b"1", "press")
        if found[2] and (int(found[2]) - 1) & _CONTROL:
            char = chr(ord(char.lower()) & 0x1F)
        return [Key(_NAMES.get(char, char), action)]


class Keys:
    """The terminal on standard input, key by key and without echo; put back as it was on leaving, whatever happens.

    A context manager, for the event loop's thread. Ctrl-C goes on being a signal wherever the terminal makes it one.
    """

    def __init__(self, on_key: Callable[[Key], None], *, releases: bool, output: int | None = None) -> None:
        """``releases``: ask the terminal to tell them, writing to file descriptor ``output`` (standard output).

        Raises ConfigError where standard input is no terminal.
        """
        if not has_terminal():
            raise ConfigError("Keys can be pressed only in a terminal, and standard input is none.")
        self._on_key = on_key
        self._input = sys.stdin.fileno()
        self._output = sys.stdout.fileno() if output is None else output
        self._wants_releases = releases and os.isatty(self._output)  # a pipe must not get the question
        self._parser = KeyParser()
        self._reporting = False
        self._before: Attributes = []
        self._timer: asyncio.TimerHandle | None = None
        self._on_releases: Callable[[], None] = lambda: None

    def on_releases(self, call: Callable[[], None]) -> None:
        """Called once if the terminal turns out to tell when keys are let go."""
        self._on_releases = call

    @property
    def reports_releases(self) -> bool:
        return self._reporting

    def __enter__(self) -> Keys:
        import termios

        self._before = termios.tcgetattr(self._input)
        now = termios.tcgetattr(self._input)
        now[3] &= ~(termios.ICANON | termios.ECHO)
        now[0] &= ~termios.ICRNL
        now[6][termios.VMIN], now[6][termios.VTIME] = 1, 0
        # Suspending would leave the shell with this picture and without its echo.
        now[6][termios.VSUSP] = os.fpathconf(self._input, "PC_VDISABLE").to_bytes(1, "little")
        termios.tcsetattr(self._input, termios.TCSADRAIN, now)
        asyncio.get_running_loop().add_reader(self._input, self._read)
        if self._wants_releases:
            self._write(_ASK)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(RuntimeError):  # the loop is closed
            asyncio.get_running_loop().remove_reader(self._input)
        if self._timer is not None:
            self._timer.cancel()
        self.restore()

    def restore(self) -> None:
        """Put the terminal back; from anywhere, and more than once."""
        import termios

        if self._reporting:
            self._reporting = False
            self._write(_STOP_REPORTING)
        if self._before:
            with suppress(termios.error, OSError):  # the terminal has gone
                termios.tcsetattr(self._input, termios.TCSANOW, self._before)

    def _read(self) -> None:
        try:
            data = os.read(self._input, 4096)
        except OSError:
            data = b""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        if not data:
            loop.remove_reader(self._input)
            self._on_key(Key("end"))
            return
        self._tell(self._parser.feed(data))
        if self._parser.waiting:
            self._timer = loop.call_later(_ESCAPE_S, lambda: self._tell(self._parser.timed_out()))
        if self._wants_releases and self._parser.reports_releases and not self._reporting:
            self._reporting = True
            self._write(_REPORT_ALL)
            self._on_releases()

    def _tell(self, keys: list[Key]) -> None:
        for key in keys:
            self._on_key(key)

    def _write(self, text: str) -> None:
        with suppress(OSError):
            os.write(self._output, text.encode())


def has_terminal() -> bool:
    """Whether keys can be read: standard input is a terminal of a system that has termios."""
    try:
        import termios  # noqa: F401
    except ImportError:  # Windows
        return False
    return somebody_types()


def somebody_types() -> bool:
    """Whether standard input is a terminal; it may be closed altogether."""
    return sys.stdin is not None and sys.stdin.isatty()


def screen() -> TextIO:
    """Where people read: standard output if it is a terminal, else standard error, since what a pipe gets is read by
    programs. Not always the latter: a picture keeps it for later (``app.cli.quiet``)."""
    return sys.stdout if sys.stdout is not None and sys.stdout.isatty() else sys.stderr


def ask(question: str, *, at_end: str) -> str:
    """What somebody answers in the terminal, in lower case; ``at_end`` if they end the input instead (Ctrl-D)."""
    print(question, end="", file=screen(), flush=True)  # not by input(), which writes it to standard error
    try:
        return input("").strip().lower()
    except EOFError:
        print(file=screen(), flush=True)
        return at_end
