"""Ctrl-C while packages are imported.

A KeyboardInterrupt in the middle of a C extension's import comes out as an ImportError or worse, a screen long.
Nothing needs to be put away at that time, so the process just ends.
"""

from __future__ import annotations

import os
import signal

_STATUS = 128 + signal.SIGINT


def end_at_once() -> None:
    """From here on Ctrl-C ends the process without a word, unless something else has the signal already."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def leave_to_command() -> None:
    """From here on Ctrl-C is a KeyboardInterrupt again, which asyncio and commands know how to handle."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: object) -> None:
    os._exit(_STATUS)
