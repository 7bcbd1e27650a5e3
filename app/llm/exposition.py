"""The worker's figures as Prometheus wants them; docs/metrics.md says what each means."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from itertools import accumulate
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from app.engine.messages import Figures, Spread
from app.errors import StageError
from app.llm.figures import FigureTotals

_ASK_TIMEOUT_S = 0.25
"""A scrape waits no longer for fresh figures; the heartbeat's are at most about a second old."""

_BYTES_PER_MIB = 1024 * 1024

_COUNTERS = (
    ("steps", "steps", "Steps of the engine"),
    ("prompt_tokens", "prompt_tokens", "Prompt tokens of the requests admitted"),
    ("cached_tokens", "cached_tokens", "Prompt tokens found computed"),
    ("prefill_tokens", "prefill_tokens", "Prompt tokens run through the model"),
    ("recomputed_tokens", "recomputed_tokens", "Tokens run again after a preemption"),
    ("draft_tokens", "draft_tokens", "Tokens prefilled ahead of a turn"),
    ("decode_tokens", "decode_tokens", "Reply tokens run through the model"),
    ("preemptions", "preemptions", "Replies set aside for more urgent ones"),
    ("evictions", "evictions", "Cached blocks given up for room"),
    ("session_evictions", "session_evictions", "Idle sessions that lost their blocks"),
    ("cancelled", "cancels", "Requests cancelled"),
    ("finished", "finished", "Requests finished"),
    ("failed", "failed", "Requests refused or failed"),
    ("refused", "refused", "Requests refused before they began"),
    ("timed_out", "timeouts", "Requests ended at their deadline"),
    ("resets", "resets", "Times the engine began its books anew after a fault"),
)
"""Field of Figures, name, help."""

_HISTOGRAMS = (
    ("step_ms", "step_seconds", "Time of a step", 1e-3),
    ("step_rows", "batch_size", "Sequences in a step", 1.0),
    ("queue_ms", "queue_seconds", "From submission to the first step", 1e-3),
    ("ttft_ms", "ttft_seconds", "From submission to the first token", 1e-3),
    ("inter_token_ms", "inter_token_seconds", "Between two tokens of a reply", 1e-3),
)
"""Field of Figures, name, help, factor to the exported unit."""


class Worker(Protocol):
    """The client of a worker, as far as its figures go (LocalLanguageModel)."""

    totals: FigureTotals

    @property
    def ready(self) -> bool: ...

    async def stats(self) -> Figures: ...


class WorkerMetrics:
    """A source for app.telemetry.Metrics. Neither hangs nor fails because the worker does."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def refresh(self) -> None:
        """Ask for fresh figures, for a moment."""
        with contextlib.suppress(StageError, TimeoutError):
            async with asyncio.timeout(_ASK_TIMEOUT_S):
                await self._worker.stats()  # what it answers has gone into the totals by then

    def collect(self) -> Iterator[Metric]:
        totals = self._worker.totals
        yield _gauge("up", "1 while a worker is loaded and warm", float(self._worker.ready))
        yield _counter("starts", "Workers started", float(totals.runs))
        yield from _now(totals.latest)
        for field, name, help_text in _COUNTERS:
            yield _counter(name, help_text, totals.counter(field))
        for field, name, help_text, factor in _HISTOGRAMS:
            yield _histogram(name, help_text, totals.spread(field), factor)


def _now(figures: Figures | None) -> Iterator[Metric]:
    """Zeros while there is no worker: none of its queues or blocks exist then."""
    yield _gauge("running", "Requests in the running batch", figures.running if figures else 0)
    yield _gauge("queue_depth", "Requests submitted and not running", figures.waiting if figures else 0)
    yield _gauge("sessions", "Sessions remembered", figures.sessions if figures else 0)
    blocks = GaugeMetricFamily("parley_llm_kv_blocks", "Blocks of the KV pool, by state", labels=["state"])
    blocks.add_metric(["free"], figures.blocks_free if figures else 0)
    blocks.add_metric(["cached"], figures.blocks_cached if figures else 0)
    blocks.add_metric(["held"], figures.blocks_held if figures else 0)
    yield blocks
    yield _gauge("step_age_seconds", "Age of the step that is running", figures.step_age_s if figures else 0.0)
    memory = figures.memory_mb * _BYTES_PER_MIB if figures else 0.0
    yield _gauge("memory_bytes", "Resident memory of the worker process", memory)


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"parley_llm_{name}", help_text, value=value)


def _counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(f"parley_llm_{name}", help_text, value=value)


def _histogram(name: str, help_text: str, spread: Spread, factor: float) -> Metric:
    bounds = [*(f"{bound * factor:.12g}" for bound in spread.bounds), "+Inf"]
    cumulative = [float(count) for count in accumulate(spread.counts)]
    buckets = list(zip(bounds, cumulative, strict=True))
    return HistogramMetricFamily(f"parley_llm_{name}", help_text, buckets=buckets, sum_value=spread.total * factor)
