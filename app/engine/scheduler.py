"""What runs in the next step: every reply that can be decoded, and as much prefill as the step's time allows."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter

from app.engine.blocks import BlockPool
from app.engine.costs import StepCost
from app.engine.plan import StepPlan, attended
from app.engine.room import Room
from app.engine.sequence import GRID, Chunk, RunnerTraits, Sequence
from app.engine.sessions import SessionStore
from app.engine.urgency import AHEAD_S, DISPLACE_S, claim_s, due_s, place_s
from app.errors import ContextOverflow

_place = attrgetter("place_s")


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
        self.waiting: list[Sequence] = []
        """The most urgent first."""
        self._room = Room(pool, sessions, self.waiting)
        self.running: dict[int, Sequence] = {}
        """By key, in order of admission."""
        self.preemptions = 0

    def room(self, prompt_tokens: int) -> int:
        """Tokens that may be drawn after the prompt; raises ContextOverflow if it could never run."""
        context, pool = self.limits.context_tokens, self.pool.total * self.pool.block_tokens
        if prompt_tokens >= context:
            raise ContextOverflow(
                f"the prompt has {prompt_tokens} tokens, which leaves no room for a reply in the context of "
                f"{context} (llm.context_tokens): shorten the conversation"
            )
        if prompt_tokens >= pool:
            raise ContextOverflow(
                f"the prompt has {prompt_tokens} tokens, which leaves no room for a reply in the {pool} that the "
                "KV pool holds: raise llm.kv_cache_mb"
            )
        return min(context, pool) - prompt_tokens

    def reset(self) -> None:
        """Open every book anew, the sessions' and the pool's too. Whoever was queued is forgotten."""
        self.waiting.clear()
        self.running.clear()
        self.sessions.reset()
        self.pool.reset()

    def check(self) -> None:
        """Raises AssertionError when the books do not balance."""
        everybody = [*self.running.values(), *self.waiting]
        self.pool.check([*(sequence.blocks for sequence in everybody), *self.sessions.holdings()])
        for sequence in everybody:
            if self.traits.can_reuse and self.pool.needed(sequence.computed) > len(sequence.blocks):
                raise AssertionError(f"sequence {sequence.key} has computed more than its blocks hold")

    def add(self, sequence: Sequence) -> None:
        sequence.place_s = place_s(sequence)
        insort(self.waiting, sequence, key=_place)

    def remove(self, sequence: Sequence) -> None:
        """Take a sequence out of its queue; its blocks are the caller's to keep or drop."""
        if self.running.pop(sequence.key, None) is None:
            self.waiting.remove(sequence)

    def plan(self, now_s: float) -> list[Chunk]:
        """The chunks of the next step; empty only if nothing can run at all."""
        self.sessions.expire(now_s)
        if not self.running and not self.waiting:
            return []
        plan = StepPlan(self.cost, self.limits.step_tokens)
        ready, prefilling = self._sorted_by_need()
        ahead = self._ahead(ready, prefilling, now_s)
        for sequence in ready:
            if sequence.key not in ahead:
                self._decode(plan, sequence)
        self._prefill(plan, prefilling, now_s)
        # Those nearest to running dry come first into what is left of the step's time.
        for sequence in sorted(ahead.values(), key=due_s):
            if not plan or plan.predicted_ms(1, sequence.computed + 1) <= self.limits.shared_step_ms:
                self._decode(plan, sequence)
        while not plan and self.running:
            # Sequences that are half prefilled block each other: the least urgent steps back until one can go on.
            self._preempt(self._least_urgent(), plan)
            self._prefill(plan, list(self.running.values()), now_s)
        return plan.chunks()

    def complete(self, chunks: SequenceOf[Chunk]) -> None:
        """Record that the chunks ran. Only now may their blocks be found as prefixes."""
        size = self.pool.block_tokens
        for chunk in chunks:
            sequence = chunk.sequence
            computed = sequence.computed = chunk.start + chunk.count
            if computed > sequence.reached:
                sequence.reached = computed
            if not self.traits.can_reuse:
                continue
            while (sequence.indexed + 1) * size <= computed:
                tokens = sequence.ids[sequence.indexed * size : (sequence.indexed + 1) * size]
                sequence.last_digest = self.pool.register(
                    sequence.blocks[sequence.indexed], sequence.last_digest, tokens
                )
                sequence.indexed += 1

    def distrust(self, sequence: Sequence) -> None:
        """What it computed, in this step and before, must not be found as anybody's prefix."""
        for block in sequence.blocks:
            self.pool.make_private(block)

    # --- decoding ------------------------------------------------------------------------

    def _sorted_by_need(self) -> tuple[list[Sequence], list[Sequence]]:
        """Those that run: who can have a token, and whose prompt is not yet computed."""
        ready: list[Sequence] = []
        prefilling: list[Sequence] = []
        for sequence in self.running.values():
            is_ready = sequence.computed and len(sequence.ids) - sequence.computed == 1
            (ready if is_ready else prefilling).append(sequence)
        return ready, prefilling

    def _ahead(self, ready: list[Sequence], prefilling: list[Sequence], now_s: float) -> dict[int, Sequence]:
        """Who has so much speech ahead that it leaves a tight step to others: to a prompt in need, or if the rows
        alone take too long."""
        prompts = prefilling
        if self.waiting and len(self.running) < self.limits.max_running:
            prompts = [*prefilling, self.waiting[0]]
        is_tight = any(sequence.place_s - now_s < AHEAD_S for sequence in prompts)
        if not is_tight:
            positions = sum(len(sequence.ids) for sequence in ready)
            is_tight = self.cost.predict_ms(len(ready), positions) > self.limits.shared_step_ms
        if not is_tight:
            return {}
        return {sequence.key: sequence for sequence in ready if sequence.spoken and due_s(sequence) - now_s > AHEAD_S}

    def _decode(self, plan: StepPlan, sequence: Sequence) -> None:
        """Plan the reply's next token, growing it at the cost of less urgent ones if need be."""
        while sequence.key in self.running:
            if len(sequence.ids) <= len(sequence.blocks) * self.pool.block_tokens or self._room.grow(
                sequence, len(sequence.ids)
            ):
                plan.decode(sequence)
                return
            self._preempt(self._least_urgent(), plan)

    # --- prefill and admission -----------------------------------------------------------

    def _prefill(self, plan: StepPlan, prefilling: list[Sequence], now_s: float) -> None:
        """Spend the rest of the step on prompts, the most urgent first, begun or not."""
        if not prefilling and not self.waiting:
            return
        newcomers = True
        begun = {sequence.key for sequence in prefilling}
        for sequence in self._by_place(prefilling):
            if sequence.key in begun:
                if sequence.key in self.running:  # and has not had to give way in this very step
                    self._plan_prefill(plan, sequence)
            elif newcomers:
                # Whoever finds no room holds up those behind: else a large prompt would wait for ever.
                newcomers = self._admit(plan, sequence, now_s)

    def _by_place(self, prefilling: list[Sequence]) -> Iterable[Sequence]:
        if not self.waiting:
            return sorted(prefilling, key=_place) if len(prefilling) > 1 else prefilling
        return merge(sorted(prefilling, key=_place), self.waiting.copy(), key=_place)

    def _admit(self, plan: StepPlan, sequence: Sequence, now_s: float) -> bool:
        """Begin with a waiting sequence; False if there is no room for it, nor for anybody after it."""
        full = len(self.running) >= self.limits.max_running
        victim = self._displaceable(sequence, now_s) if full else None
        if (full and victim is None) or plan.is_full(self._budget_ms(plan, sequence)):
            return False
        if not sequence.blocks:
            self.sessions.adopt(sequence, can_reuse=self.traits.can_reuse)
        elif self.traits.can_reuse:
            self.sessions.extend(sequence)
        if self.traits.can_reuse and plan.computes_next_block_of(sequence, self.pool.block_tokens):
            return True  # somebody computes in this step what it can take up in the next
        if not self._prefill_size(plan, sequence):
            return False
        if victim is not None:
            self._displace(victim, plan)
        while not self._room.suffices(sequence, len(self.running)):
            victim = self._displaceable(sequence, now_s)
            if victim is None:
                return False
            self._displace(victim, plan)
        if not self._room.grow(sequence, len(sequence.ids)):
            return False
        if sequence.cached_tokens is None:
            sequence.cached_tokens = sequence.computed
            sequence.started_s = now_s
        self.waiting.remove(sequence)
        self.running[sequence.key] = sequence
        plan.prefill(sequence, self._prefill_size(plan, sequence))
        return True

    def _plan_prefill(self, plan: StepPlan, sequence: Sequence) -> None:
        if self.traits.can_reuse:
            taken = self.sessions.extend(sequence)
            if taken and sequence.computed > sequence.reached:
                sequence.cached_tokens = (sequence.cached_tokens or 0) + taken
            if plan.computes_next_block_of(sequence, self.pool.block_tokens):
                return
        count = self._prefill_size(plan, sequence)
        if count and self._room.grow(sequence, len(sequence.ids)):
            plan.prefill(sequence, count)

    def _budget_ms(self, plan: StepPlan, sequence: Sequence) -> float:
        """A draft is no reason for a long step: the turn that it is made for may come at any moment."""
        shared = plan.is_decoding or sequence.only_prefill
        return self.limits.shared_step_ms if shared else self.limits.lone_step_ms

    def _prefill_size(self, plan: StepPlan, sequence: Sequence) -> int:
        """Tokens of ``sequence`` that still fit the step: its row budget and its predicted time."""
        if not self.traits.can_chunk:
            return 0 if plan.is_prefilling else sequence.pending
        budget_ms = self._budget_ms(plan, sequence)
        # The first prefill of a step goes on by one cell even when the budget is used up, so that nobody starves.
        least = 0 if plan.is_prefilling else min(sequence.pending, GRID - sequence.computed % GRID)
        rows = min(self.limits.step_tokens, self.cost.trusted_tokens) - plan.rows
        count = _to_grid(sequence, min(sequence.pending, rows))
        while count > least and plan.predicted_ms(count, attended(sequence.computed, count)) > budget_ms:
            count = _to_grid(sequence, count * 3 // 4)
        return max(count, least)

    # --- who gives way -------------------------------------------------------------------

    def _least_urgent(self) -> Sequence:
        """Of those that run; the youngest of equals."""
        return max(self.running.values(), key=lambda sequence: (due_s(sequence), sequence.key))

    def _displaceable(self, newcomer: Sequence, now_s: float) -> Sequence | None:
        """Who runs and can wait so much better than the newcomer that it should."""
        can_wait = [sequence for sequence in self.running.values() if not sequence.displaced]
        if not can_wait:
            return None
        victim = max(can_wait, key=lambda sequence: (due_s(sequence), sequence.key))
        return victim if due_s(victim) - now_s > claim_s(newcomer, now_s) + DISPLACE_S else None

    def _displace(self, sequence: Sequence, plan: StepPlan) -> None:
        sequence.displaced = True
        self._preempt(sequence, plan)

    def _preempt(self, sequence: Sequence, plan: StepPlan) -> None:
        """Give its blocks back and let it wait. Its tokens stay: nothing is said twice."""
        plan.drop(sequence)
        del self.running[sequence.key]
        self.sessions.drop(sequence)
        self.add(sequence)
        self.preemptions += 1


def _to_grid(sequence: Sequence, count: int) -> int:
    """The largest chunk of at most ``count`` tokens that ends on the grid, or with the sequence; may be 0."""
    if count >= sequence.pending:
        return sequence.pending
    stop = (sequence.computed + max(count, 0)) // GRID * GRID
    return max(0, stop - sequence.computed)
