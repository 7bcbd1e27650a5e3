"""What the workers of one client have counted, summed over restarts, so that no counter ever goes back."""

from __future__ import annotations

from collections import defaultdict

from app.engine.messages import Figures, Spread

COUNTERS = (
    "steps",
    "prompt_tokens",
    "prefill_tokens",
    "decode_tokens",
    "cached_tokens",
    "recomputed_tokens",
    "draft_tokens",
    "preemptions",
    "evictions",
    "session_evictions",
    "cancelled",
    "finished",
    "failed",
    "refused",
    "timed_out",
    "resets",
)
SPREADS = ("step_ms", "step_rows", "queue_ms", "ttft_ms", "inter_token_ms")


class FigureTotals:
    """Fed with all figures that workers send; the last ones of a worker count for good once the next one begins."""

    def __init__(self) -> None:
        self.runs = 0
        """Workers started so far."""
        self.latest: Figures | None = None
        """Of the worker that runs now; None until its first answer."""
        self._counters: defaultdict[str, float] = defaultdict(float)
        self._spreads: defaultdict[str, Spread] = defaultdict(Spread)

    def begin_run(self) -> None:
        self.runs += 1
        if self.latest is not None:
            for name in COUNTERS:
                self._counters[name] = self.counter(name)
            for name in SPREADS:
                self._spreads[name] = self.spread(name)
            self.latest = None

    def take(self, figures: Figures) -> None:
        self.latest = figures

    def counter(self, name: str) -> float:
        """One of COUNTERS, of all workers."""
        return self._counters[name] + (float(getattr(self.latest, name)) if self.latest is not None else 0.0)

    def spread(self, name: str) -> Spread:
        """One of SPREADS, of all workers."""
        before = self._spreads[name]
        now: Spread = getattr(self.latest, name) if self.latest is not None else Spread()
        if before.bounds != now.bounds:  # one of them is empty: bounds do not change while the server runs
            return before if before.bounds else now
        counts = tuple(a + b for a, b in zip(before.counts, now.counts, strict=True))
        return Spread(now.bounds, counts, before.total + now.total)
