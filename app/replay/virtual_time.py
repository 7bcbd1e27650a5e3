"""An event loop on which waiting costs nothing: when nobody is ready, its clock jumps to the next timer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from selectors import DefaultSelector
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__(_Selector(self))
        self.now = 1000.0

    def time(self) -> float:
        return self.now


class _Selector(DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("everybody waits and nothing will ever happen")
        self._loop.now += timeout
        return ready


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
