"""What Prometheus may ask: sessions, turns, stage latencies, errors, and how late the event loop runs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_LATENCY_BUCKETS_S = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
_LAG_PERIOD_S = 0.1
_LAG_WINDOW = 100
"""Samples the lag gauge looks back on: 10 s, so that a scrape does not miss a stall between two scrapes."""


class Source(Protocol):
    """Someone who counts for themselves, such as the client of another process."""

    async def refresh(self) -> None:
        """Before a scrape. Bounded in time, and never raises."""
        ...

    def collect(self) -> Iterable[Metric]:
        """All metrics as they stand; the same names every time."""
        ...


class Metrics:
    """One registry per server, so that two servers in one process (tests) keep apart."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.sessions_active = Gauge("parley_sessions_active", "Sessions open now", registry=self.registry)
        self.sessions = Counter("parley_sessions", "Sessions opened", ["transport"], registry=self.registry)
        self.refused = Counter("parley_refused", "Calls refused", ["code"], registry=self.registry)
        self.turns = Counter("parley_turns", "Turns answered", registry=self.registry)
        self.replies = Counter("parley_replies", "Replies ended, by status", ["status"], registry=self.registry)
        self.stages = Histogram(
            "parley_stage_seconds",
            "Time a turn spent until the stage delivered, by stage",
            ["stage"],
            buckets=_LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.tokens = Counter("parley_tokens", "LLM tokens, by kind", ["kind"], registry=self.registry)
        self.early = Histogram(
            "parley_early_reply_seconds",
            "How long before the end of the turn its reply was begun; 0 where it was not",
            buckets=_LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.wasted = Counter(
            "parley_early_tokens_wasted",
            "LLM tokens of replies begun early for words that then went on",
            registry=self.registry,
        )
        self.backchannels = Counter(
            "parley_backchannels", "Listener's noises that the assistant spoke on over", registry=self.registry
        )
        self.errors = Counter("parley_errors", "Errors told to clients, by code", ["code"], registry=self.registry)
        self.notices = Counter("parley_notices", "Lines spoken by Parley itself", ["code"], registry=self.registry)
        self.underruns = Counter(
            "parley_underrun_seconds",
            "Time for which replies in mid-speech had no sound ready, in connections that are over",
            registry=self.registry,
        )
        self.loop_lag = Gauge(
            "parley_event_loop_lag_seconds", "Largest delay of the event loop in the last 10 s", registry=self.registry
        )
        self.context_cuts = Counter(
            "parley_context_cuts",
            "Times that the beginning of a conversation left the prompt, by whether a summary took its place",
            ["summarised"],
            registry=self.registry,
        )
        self._sources: list[Source] = []
        self._observers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "parley.turn": self._turn,
            "parley.backchannel": lambda event: self.backchannels.inc(),
            "response.done": self._reply,
            "error": self._error,
            "parley.notice": self._notice,
            "parley.context": self._context,
        }

    def add(self, source: Source) -> None:
        """Let ``source`` be part of every scrape."""
        self.registry.register(source)
        self._sources.append(source)

    async def refresh(self) -> None:
        """Let all sources fetch what is new."""
        await asyncio.gather(*(source.refresh() for source in self._sources))

    def observe(self, event: Mapping[str, Any]) -> None:
        """Count what a session tells its client (docs/events.md). Never raises."""
        observer = self._observers.get(str(event.get("type")))
        if observer is not None:
            observer(event)

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)

    async def watch_loop(self) -> None:
        """Measure event-loop lag until cancelled."""
        loop = asyncio.get_running_loop()
        recent: deque[float] = deque(maxlen=_LAG_WINDOW)
        while True:
            due = loop.time() + _LAG_PERIOD_S
            await asyncio.sleep(_LAG_PERIOD_S)
            recent.append(max(0.0, loop.time() - due))
            self.loop_lag.set(max(recent))

    def _turn(self, event: Mapping[str, Any]) -> None:
        self.turns.inc()
        for stage, elapsed_ms in _numbers(event.get("timings_ms")):
            self.stages.labels(stage).observe(elapsed_ms / 1000.0)
        for kind, count in _numbers(event.get("usage")):
            self.tokens.labels(kind.removesuffix("_tokens")).inc(count)
        early = dict(_numbers(event.get("early")))
        self.early.observe(early.get("ms", 0.0) / 1000.0)
        self.wasted.inc(early.get("wasted_tokens", 0.0))

    def _reply(self, event: Mapping[str, Any]) -> None:
        response = event.get("response")
        status = response.get("status") if isinstance(response, Mapping) else None
        self.replies.labels(str(status or "unknown")).inc()

    def _error(self, event: Mapping[str, Any]) -> None:
        error = event.get("error")
        code = error.get("code") if isinstance(error, Mapping) else None
        self.errors.labels(str(code or "unknown")).inc()

    def _notice(self, event: Mapping[str, Any]) -> None:
        self.notices.labels(str(event.get("code") or "unknown")).inc()

    def _context(self, event: Mapping[str, Any]) -> None:
        self.context_cuts.labels(str(bool(event.get("complete"))).lower()).inc()


def _numbers(mapping: object) -> list[tuple[str, float]]:
    """The non-negative numbers of a mapping whose stages may have been skipped (None)."""
    if not isinstance(mapping, Mapping):
        return []
    return [
        (str(key), float(value))
        for key, value in mapping.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    ]
