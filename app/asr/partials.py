"""How much of the recogniser's time goes to speech that is still going on."""

from __future__ import annotations

import time
from collections.abc import Callable

MAX_PARTIAL_S = 12.0
"""Of longer speech only the end is recognised again while it goes on."""
REST_FACTOR = 3.0
"""A partial transcription is followed by a rest of this many times its cost: at most a quarter of the time, over
all sessions, goes to words that will be heard again, and a final one rarely finds the machine taken."""


class PartialBudget:
    """Says when the next partial transcription may begin. For one thread; ``clock`` in seconds."""

    def __init__(self, rest_factor: float = REST_FACTOR, clock: Callable[[], float] = time.perf_counter) -> None:
        self._rest_factor = rest_factor
        self._clock = clock
        self._free_at = 0.0

    @property
    def wait_s(self) -> float:
        """Seconds until the next may begin; 0 when it may now."""
        return max(0.0, self._free_at - self._clock())

    def spent(self, cost_s: float) -> None:
        """A partial transcription that took ``cost_s`` has just ended, finished or not."""
        self._free_at = self._clock() + self._rest_factor * cost_s
