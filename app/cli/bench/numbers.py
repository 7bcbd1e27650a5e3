"""Numbers on a command line, refused by argparse where they make no sense."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def whole(least: int, most: int) -> Callable[[str], int]:
    """For ``type=``: a whole number from ``least`` to ``most``."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from {least} to {most}")
        return value

    return read


def some_whole(least: int, most: int) -> Callable[[str], tuple[int, ...]]:
    """For ``type=``: one such number, or several with commas."""
    one = whole(least, most)

    def read(text: str) -> tuple[int, ...]:
        return tuple(one(part) for part in text.split(","))

    return read
