"""One reply in the making, as the scheduler and the runner see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from app.engine.messages import Priority, SamplingSpec

if TYPE_CHECKING:
    from app.engine.grammar import Constraint

GRID = 32
"""Prefill is attended to in cells that end at multiples of this. Rounding in attention kernels depends on
how many rows and keys a call has; with fixed cells, a prompt's keys and values come out bit for bit the
same whatever else shared its steps."""

SessionKey: TypeAlias = tuple[str, str]
"""Tenant and name: two tenants may use the same name."""


@dataclass(slots=True, eq=False)
class Sequence:
    """Prompt and reply so far. ``computed`` of the ``ids`` have their keys and values in ``blocks``."""

    key: int
    """Unique in the engine's life: names it to a runner that keeps its own state."""
    ids: list[int]
    prompt_tokens: int
    sampling: SamplingSpec
    seed: int
    arrived_s: float
    max_tokens: int = 256
    salt: bytes = b""
    session: SessionKey | None = None
    priority: Priority = "normal"
    spoken: bool = False
    only_prefill: bool = False
    """Nothing is drawn: it ends when its ids are computed."""
    blocks: list[int] = field(default_factory=list)
    computed: int = 0
    indexed: int = 0
    """Leading blocks that have been offered to the prefix index."""
    last_digest: bytes = b""
    cached_tokens: int | None = None
    """Taken over at the first admission; recomputing after a preemption does not count as reuse."""
    reached: int = 0
    """Most tokens that were ever computed: up to there, running them is computing again."""
    displaced: bool = False
    """Gave up its place to a more urgent one; that is asked of nobody twice."""
    place_s: float = 0.0
    """What it is sorted by while it waits or is prefilled (see urgency.py)."""
    started_s: float = 0.0
    first_token_s: float = 0.0
    last_token_s: float = 0.0
    constraint: Constraint | None = None
    """What the reply must keep to."""

    @property
    def pending(self) -> int:
        """Tokens still to be run before the next one can be drawn."""
        return len(self.ids) - self.computed

    @property
    def reply(self) -> list[int]:
        return self.ids[self.prompt_tokens :]

    @property
    def reply_tokens(self) -> int:
        return len(self.ids) - self.prompt_tokens


@dataclass(frozen=True, slots=True)
class Chunk:
    """``count`` tokens of a sequence to run in a step, from position ``start`` on."""

    sequence: Sequence
    start: int
    count: int

    @property
    def stop(self) -> int:
        return self.start + self.count

    def cells(self) -> list[tuple[int, int]]:
        """(start, count) of each call to attention. A reply that is computed again goes one by one, as it first did."""
        prompt_stop = min(self.stop, self.sequence.prompt_tokens)
        cells: list[tuple[int, int]] = []
        start = self.start
        while start < prompt_stop:
            end = min(prompt_stop, (start // GRID + 1) * GRID)
            cells.append((start, end - start))
            start = end
        cells += [(position, 1) for position in range(start, self.stop)]
        return cells

    @property
    def samples(self) -> bool:
        """Whether the last row yields the sequence's next token."""
        return self.start + self.count == len(self.sequence.ids) and not self.sequence.only_prefill


@dataclass(frozen=True, slots=True)
class Draw:
    """A sequence's next token; with log-probabilities (natural logarithm) where its sampling asks for them.

    With a ``fault`` there is no token: nothing could be drawn for this sequence, and its KV cannot be trusted.
    """

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class RunnerTraits:
    """What a runner can do. A model that keeps state outside the KV blocks can neither be chunked nor be taken up."""

    can_chunk: bool
    can_reuse: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """The chunks of a step laid end to end: each row's token and position, and the rows whose logits are wanted."""

    ids: list[int]
    positions: list[int]
    wanted: list[int]


def rows_of(chunks: Iterable[Chunk]) -> Rows:
    rows = Rows([], [], [])
    for chunk in chunks:
        rows.ids.extend(chunk.sequence.ids[chunk.start : chunk.stop])
        rows.positions.extend(range(chunk.start, chunk.stop))
        if chunk.samples:
            rows.wanted.append(len(rows.ids) - 1)
    return rows
