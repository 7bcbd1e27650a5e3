"""Where blocks come from when the pool has no more: idle sessions give theirs first, then those who wait."""

from __future__ import annotations

from app.engine.blocks import BlockPool
from app.engine.sequence import Sequence
from app.engine.sessions import SessionStore

_RESERVE = 8
"""A newcomer leaves every running reply a block to grow by, up to this part of the pool."""


class Room:
    """Finds blocks for sequences, but takes none from those that run: who gives way is the scheduler's to say."""

    def __init__(self, pool: BlockPool, sessions: SessionStore, waiting: list[Sequence]) -> None:
        """``waiting`` is the scheduler's queue, the most urgent first."""
        self._pool = pool
        self._sessions = sessions
        self._waiting = waiting

    def suffices(self, sequence: Sequence, running: int) -> bool:
        """Whether its whole prompt fits, and leaves those who run something to grow by."""
        if not running:
            return True
        missing = self._pool.needed(len(sequence.ids)) - len(sequence.blocks)
        wanted = missing + min(running, self._pool.total // _RESERVE)
        if wanted <= self._pool.available:
            return True
        found_ready = sum(len(other.blocks) for other in self._waiting if other is not sequence)
        return wanted <= self._pool.available + self._sessions.idle_blocks + found_ready

    def grow(self, sequence: Sequence, tokens: int) -> bool:
        """Blocks for ``tokens`` tokens; False, and whatever could be given up is, if there are too few."""
        missing = self._pool.needed(tokens) - len(sequence.blocks)
        if missing <= 0:
            return True
        while self._pool.available < missing:
            if not self._sessions.evict_one() and not self._strip_waiting(sequence):
                return False
        taken = self._pool.allocate(missing, after=sequence.blocks[-1] if sequence.blocks else None)
        if taken is None:
            return False
        sequence.blocks += taken
        return True

    def _strip_waiting(self, needy: Sequence) -> bool:
        """Take the blocks that a waiting reply found ready for it; it will compute them again."""
        for sequence in reversed(self._waiting):
            if sequence.blocks and sequence is not needy:
                self._sessions.drop(sequence)
                return True
        return False
