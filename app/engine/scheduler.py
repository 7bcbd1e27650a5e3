"""What runs in the next step: every reply that can be decoded, and as much prefill as the step's time allows."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

from app.engine.blocks import BlockPool
from app.engine.costs import StepCost
from app.engine.sequence import GRID, Chunk, RunnerTraits, Sequence
from app.engine.sessions import SessionStore
from app.errors import ContextOverflow


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a step and of what is admitted."""

    context_tokens: int
    max_running: int
    step_tokens: int = 512
    """Rows of one step at most."""
    shared_step_ms: float = 80.0
    """Predicted time of a step in which replies are being decoded: the longest gap that prefill may cause."""
    lone_step_ms: float = 250.0
    """...of a step in which nobody waits for a next token; bounds how late a cancel or a newcomer is seen."""


class Scheduler:
    """Owns the queues and hands out blocks. Knows nothing of tensors; only the engine thread calls it."""

    def __init__(
        self,
        pool: BlockPool,
        sessions: SessionStore,
        limits: Limits,
        traits: RunnerTraits,
        cost: StepCost | None = None,
    ) -> None:
        self.pool = pool
        self.sessions = sessions
        self.limits = limits
        self.traits = traits
        self.cost = cost or StepCost()
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.preemptions = 0

    def check_fits(self, prompt_tokens: int, max_tokens: int) -> None:
        """Raises ContextOverflow for what could never run, however empty the pool."""
        needed = prompt_tokens + max_tokens
        if needed > self.limits.context_tokens:
            raise ContextOverflow(
                f"the prompt has {prompt_tokens} tokens and the reply may have {max_tokens}, together more than "
                f"the context of {self.limits.context_tokens} (llm.context_tokens): shorten the conversation"
            )
        if self.pool.needed(needed) > self.pool.total:
            raise ContextOverflow(
                f"the prompt has {prompt_tokens} tokens and the reply may have {max_tokens}, together more than the "
                f"{self.pool.total * self.pool.block_tokens} that the KV pool holds: raise llm.kv_cache_mb"
            )

    def reset(self) -> None:
        """Open every book anew, the sessions' and the pool's too. Whoever was queued is forgotten."""
        self.waiting.clear()
        self.running.clear()
        self.sessions.reset()
        self.pool.reset()

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Take a sequence out of its queue; its blocks are the caller's to keep or drop."""
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)

    def plan(self, now_s: float) -> list[Chunk]:
        """The chunks of the next step; empty only if nothing can run at all."""
        chunks = self._decodes()
        decoding = bool(chunks)
        self._prefill_running(chunks, decoding)
        self._admit(chunks, decoding, now_s)
        while not chunks and self.running:
            # Half-prefilled sequences block each other: the newest steps back until one can go on.
            self._preempt(self.running[-1])
            self._prefill_running(chunks, decoding)
            self._admit(chunks, decoding, now_s)
        return chunks

    def complete(self, chunks: SequenceOf[Chunk]) -> None:
        """Record that the chunks ran. Only now may their blocks be found as prefixes."""
        size = self.pool.block_tokens
        for chunk in chunks:
            sequence = chunk.sequence
            sequence.computed = chunk.stop
            if not self.traits.can_reuse:
                continue
            while (sequence.indexed + 1) * size <= sequence.computed:
                tokens = sequence.ids[sequence.indexed * size : (sequence.indexed + 1) * size]
                sequence.last_digest = self.pool.register(
                    sequence.blocks[sequence.indexed], sequence.last_digest, tokens
                )
                sequence.indexed += 1

    def _decodes(self) -> list[Chunk]:
        chunks: list[Chunk] = []
        for sequence in list(self.running):
            if sequence.pending != 1 or sequence.computed == 0 or sequence not in self.running:
                continue
            while not self._grow(sequence, len(sequence.ids)):
                victim = self.running[-1]
                self._preempt(victim)
                chunks = [chunk for chunk in chunks if chunk.sequence is not victim]
                if victim is sequence:
                    break
            else:
                chunks.append(Chunk(sequence, sequence.computed, 1))
        return chunks

    def _prefill_running(self, chunks: list[Chunk], decoding: bool) -> None:
        planned = {chunk.sequence.key for chunk in chunks}
        for sequence in self.running:
            if sequence.key not in planned and sequence.pending > 0:
                self._add_prefill(chunks, sequence, decoding)

    def _admit(self, chunks: list[Chunk], decoding: bool, now_s: float) -> None:
        while self.waiting and len(self.running) < self.limits.max_running:
            sequence = self.waiting[0]
            if not sequence.blocks:
                self.sessions.adopt(sequence, can_reuse=self.traits.can_reuse)
            adopted = sequence.computed
            if not self._add_prefill(chunks, sequence, decoding):
                return
            if sequence.cached_tokens is None:
                sequence.cached_tokens = adopted
                sequence.started_s = now_s
            self.waiting.popleft()
            self.running.append(sequence)

    def _add_prefill(self, chunks: list[Chunk], sequence: Sequence, decoding: bool) -> bool:
        count = self._prefill_size(chunks, sequence, decoding)
        if not count or not self._grow(sequence, sequence.computed + count):
            return False
        chunks.append(Chunk(sequence, sequence.computed, count))
        return True

    def _prefill_size(self, chunks: SequenceOf[Chunk], sequence: Sequence, decoding: bool) -> int:
        """Tokens of ``sequence`` that still fit the step: its row budget and its predicted time."""
        if not self.traits.can_chunk:
            return 0 if any(chunk.count > 1 for chunk in chunks) else sequence.pending
        rows = sum(chunk.count for chunk in chunks)
        attended = sum(_attended(chunk.start, chunk.count) for chunk in chunks)
        budget_ms = self.limits.shared_step_ms if decoding else self.limits.lone_step_ms
        prefilling = any(chunk.count > 1 for chunk in chunks)
        # The first prefill of a step goes on by one cell even when the budget is used up, so that nobody starves.
        least = 0 if prefilling else min(sequence.pending, GRID - sequence.computed % GRID)
        count = _to_grid(sequence, min(sequence.pending, self.limits.step_tokens - rows))
        while count > least:
            predicted = self.cost.predict_ms(rows + count, attended + _attended(sequence.computed, count))
            if predicted <= budget_ms:
                break
            count = _to_grid(sequence, count * 3 // 4)
        return max(count, least)

    def _grow(self, sequence: Sequence, tokens: int) -> bool:
        """Blocks for ``tokens`` tokens, taking them from idle sessions and then from waiting replies if need be."""
        missing = self.pool.needed(tokens) - len(sequence.blocks)
        if missing <= 0:
            return True
        while self.pool.available < missing:
            if not self.sessions.evict_one() and not self._strip_waiting(sequence):
                return False
        after = sequence.blocks[-1] if sequence.blocks else None
        taken = self.pool.allocate(missing, after)
        if taken is None:
            return False
        sequence.blocks += taken
        return True

    def _strip_waiting(self, needy: Sequence) -> bool:
        """Take the blocks that a waiting reply found ready for it; it will compute them again."""
        for sequence in reversed(self.waiting):
            if sequence.blocks and sequence is not needy:
                self.sessions.drop(sequence)
                return True
        return False

    def _preempt(self, sequence: Sequence) -> None:
        """Give its blocks back and let it wait, first in line. Its tokens stay: nothing is said twice."""
        self.running.remove(sequence)
        self.sessions.drop(sequence)
        self.waiting.appendleft(sequence)
        self.preemptions += 1


def step_size(chunks: SequenceOf[Chunk]) -> tuple[int, int]:
    """Rows of a step, and the positions that they look at together."""
    return sum(chunk.count for chunk in chunks), sum(_attended(chunk.start, chunk.count) for chunk in chunks)


def _to_grid(sequence: Sequence, count: int) -> int:
    """The largest chunk of at most ``count`` tokens that ends on the grid, or with the sequence; may be 0."""
    if count >= sequence.pending:
        return sequence.pending
    stop = (sequence.computed + max(count, 0)) // GRID * GRID
    return max(0, stop - sequence.computed)


def _attended(start: int, count: int) -> int:
    return count * start + count * (count + 1) // 2
