"""A step while it is being put together: its chunks, its size, and how long it will take."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

from app.engine.costs import StepCost
from app.engine.sequence import Chunk, Sequence


class StepPlan:
    """Chunks by sequence. True as soon as it holds one."""

    def __init__(self, cost: StepCost, most_rows: int) -> None:
        self._cost = cost
        self._most_rows = most_rows
        self._decodes: dict[int, Chunk] = {}
        self._prefills: dict[int, Chunk] = {}
        self.rows = 0
        self._attended = 0

    def __bool__(self) -> bool:
        return bool(self._decodes or self._prefills)

    @property
    def is_decoding(self) -> bool:
        return bool(self._decodes)

    @property
    def is_prefilling(self) -> bool:
        return bool(self._prefills)

    def chunks(self) -> list[Chunk]:
        """Decode rows first."""
        return [*self._decodes.values(), *self._prefills.values()]

    def decode(self, sequence: Sequence) -> None:
        self._decodes[sequence.key] = Chunk(sequence, sequence.computed, 1)
        self.rows += 1
        self._attended += sequence.computed + 1

    def prefill(self, sequence: Sequence, count: int) -> None:
        self._prefills[sequence.key] = Chunk(sequence, sequence.computed, count)
        self.rows += count
        self._attended += attended(sequence.computed, count)

    def reserve(self, rows: int) -> None:
        """Count rows that are not planned here."""
        self.rows += rows

    def drop(self, sequence: Sequence) -> None:
        chunk = self._decodes.pop(sequence.key, None) or self._prefills.pop(sequence.key, None)
        if chunk is not None:
            self.rows -= chunk.count
            self._attended -= attended(chunk.start, chunk.count)

    def predicted_ms(self, more_rows: int = 0, more_attended: int = 0) -> float:
        """Of the step, with so many rows more."""
        return self._cost.predict_ms(self.rows + more_rows, self._attended + more_attended)

    def is_full(self, budget_ms: float) -> bool:
        """Whether no further prefill has a place in it: there is one, and time or rows are used up."""
        return bool(self._prefills) and (self.rows >= self._most_rows or self.predicted_ms(1) > budget_ms)

    def computes_next_block_of(self, sequence: Sequence, block_tokens: int) -> bool:
        """Whether another sequence's chunk completes the very block that this one would compute next."""
        start, stop = sequence.computed, sequence.computed + block_tokens
        if start % block_tokens or stop >= len(sequence.ids):
            return False
        for chunk in self._prefills.values():
            other = chunk.sequence
            if (
                chunk.start <= start
                and stop <= chunk.stop
                and other.salt == sequence.salt
                and other.ids[start:stop] == sequence.ids[start:stop]
                and other.ids[:start] == sequence.ids[:start]
            ):
                return True
        return False


def step_size(chunks: SequenceOf[Chunk]) -> tuple[int, int]:
    """Rows of a step, and the positions that they look at together."""
    return sum(chunk.count for chunk in chunks), sum(attended(chunk.start, chunk.count) for chunk in chunks)


def attended(start: int, count: int) -> int:
    return count * start + count * (count + 1) // 2
