"""How a long fetch tells where it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told often, from the thread that fetches; must return at once."""

    def __call__(self, what: str, done_bytes: int, total_bytes: int) -> None:
        """``what`` names the step; ``total_bytes`` is 0 where nobody knows it."""
        ...


def silent(what: str, done_bytes: int, total_bytes: int) -> None:
    """Progress for callers without a screen."""
