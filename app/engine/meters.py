"""What the engine counts of itself."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence as SequenceOf

from app.engine.messages import Spread

MS_BOUNDS = (
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    20.0,
    30.0,
    40.0,
    60.0,
    80.0,
    120.0,
    160.0,
    250.0,
    500.0,
    1000.0,
    2500.0,
    5000.0,
)
"""Milliseconds: fine where a step of a small model lies, coarse where only the order of magnitude matters."""

ROW_BOUNDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)


class Histogram:
    """Counts values by their size; its memory does not grow."""

    def __init__(self, bounds: SequenceOf[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def spread(self) -> Spread:
        return Spread(self._bounds, tuple(self._counts), self._total)


class Meters:
    """Counters and histograms since the engine's start; written by the engine's thread only."""

    def __init__(self) -> None:
        self.steps = 0
        self.prefill_tokens = 0
        self.decode_tokens = 0
        self.cached_tokens = 0
        self.prompt_tokens = 0
        self.recomputed_tokens = 0
        self.draft_tokens = 0
        self.cancelled = 0
        self.failed = 0
        self.refused = 0
        self.timed_out = 0
        self.completed = 0
        self.resets = 0
        self.last_step_ms = 0.0
        self.reply_s = 1.0
        """How long replies take lately, from submission to end."""
        self.step_ms = Histogram(MS_BOUNDS)
        self.step_rows = Histogram(ROW_BOUNDS)
        self.queue_ms = Histogram(MS_BOUNDS)
        self.ttft_ms = Histogram(MS_BOUNDS)
        self.inter_token_ms = Histogram(MS_BOUNDS)

    def finished(self, took_s: float) -> None:
        self.completed += 1
        self.reply_s += 0.1 * (took_s - self.reply_s)

    def stepped(self, took_ms: float, rows: int) -> None:
        self.last_step_ms = took_ms
        self.step_ms.add(took_ms)
        self.step_rows.add(rows)
