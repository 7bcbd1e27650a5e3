"""What the engine counts of itself."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence as SequenceOf

from app.engine.blocks import BlockPool
from app.engine.messages import Figures, Spread
from app.engine.sequence import Chunk, Sequence

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
        """How long replies run lately, from their first step to their end."""
        self.step_ms = Histogram(MS_BOUNDS)
        self.step_rows = Histogram(ROW_BOUNDS)
        self.queue_ms = Histogram(MS_BOUNDS)
        self.ttft_ms = Histogram(MS_BOUNDS)
        self.inter_token_ms = Histogram(MS_BOUNDS)

    def planned(self, chunks: SequenceOf[Chunk]) -> None:
        """Before the chunks' tokens count as computed."""
        for chunk in chunks:
            sequence = chunk.sequence
            if chunk.count == 1 and chunk.start >= sequence.prompt_tokens:
                self.decode_tokens += 1
                continue
            self.prefill_tokens += chunk.count
            if sequence.only_prefill:
                self.draft_tokens += chunk.count
            if chunk.start < sequence.reached:
                self.recomputed_tokens += min(chunk.stop, sequence.reached) - chunk.start

    def began(self, sequence: Sequence, now_s: float) -> None:
        """Its first token was drawn."""
        self.queue_ms.add((sequence.started_s - sequence.arrived_s) * 1000.0)
        self.ttft_ms.add((now_s - sequence.arrived_s) * 1000.0)

    def finished(self, sequence: Sequence | None, now_s: float) -> None:
        self.completed += 1
        if sequence is not None:
            self.reply_s += 0.1 * (now_s - sequence.started_s - self.reply_s)

    def ended(self, sequence: Sequence) -> None:
        """However it ended, if it ever ran."""
        if sequence.cached_tokens is not None:
            self.cached_tokens += sequence.cached_tokens
            self.prompt_tokens += sequence.prompt_tokens

    def stepped(self, took_ms: float, rows: int) -> None:
        self.steps += 1
        self.last_step_ms = took_ms
        self.step_ms.add(took_ms)
        self.step_rows.add(rows)

    def figures(
        self,
        pool: BlockPool,
        *,
        running: int,
        waiting: int,
        sessions: int,
        session_evictions: int,
        preemptions: int,
        step_age_s: float,
        memory_mb: float,
    ) -> Figures:
        """Together with how things stand now; see messages.Figures."""
        return Figures(
            running=running,
            waiting=waiting,
            sessions=sessions,
            blocks_total=pool.total,
            blocks_free=pool.free,
            blocks_cached=pool.cached,
            blocks_held=pool.held,
            steps=self.steps,
            prefill_tokens=self.prefill_tokens,
            decode_tokens=self.decode_tokens,
            cached_tokens=self.cached_tokens,
            preemptions=preemptions,
            evictions=pool.evictions,
            cancelled=self.cancelled,
            failed=self.failed,
            finished=self.completed,
            step_age_s=step_age_s,
            last_step_ms=self.last_step_ms,
            memory_mb=memory_mb,
            prompt_tokens=self.prompt_tokens,
            recomputed_tokens=self.recomputed_tokens,
            draft_tokens=self.draft_tokens,
            session_evictions=session_evictions,
            refused=self.refused,
            timed_out=self.timed_out,
            resets=self.resets,
            step_ms=self.step_ms.spread(),
            step_rows=self.step_rows.spread(),
            queue_ms=self.queue_ms.spread(),
            ttft_ms=self.ttft_ms.spread(),
            inter_token_ms=self.inter_token_ms.spread(),
        )
