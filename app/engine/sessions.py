"""What the engine keeps of each session between turns: its ledger, and its keys and values while there is room."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from app.engine.blocks import BlockPool
from app.engine.ledger import Ledger
from app.engine.sequence import Sequence

MAX_SESSIONS = 4096
"""Ledgers kept; the one unused for longest is forgotten first and would be rebuilt from its messages."""

_NOTHING = Ledger()


@dataclass(slots=True)
class Session:
    ledger: Ledger
    blocks: list[int] = field(default_factory=list)
    computed: int = 0
    indexed: int = 0
    last_digest: bytes = b""


class SessionStore:
    """Sessions in order of use. Only the engine thread changes it; ``ledger`` may be read from anywhere."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def ledger(self, name: str | None) -> Ledger:
        session = self._sessions.get(name) if name is not None else None
        return session.ledger if session is not None else _NOTHING

    def adopt(self, sequence: Sequence, *, can_reuse: bool) -> int:
        """Give a sequence that starts what is already computed of its prompt; returns how many tokens.

        Taken from its session or from the prefix index, whichever reaches further. At least the last
        token is always run again, because its logits are needed.
        """
        self._drop_blocks_of(sequence)
        session = self._sessions.get(sequence.session) if sequence.session is not None else None
        if not can_reuse:
            if session is not None:
                self._release(session)
            return 0
        limit = len(sequence.ids) - 1
        from_session = self._usable(session, sequence, limit) if session is not None else 0
        shared = self._pool.match(sequence.ids[:limit], sequence.salt)
        from_index = len(shared) * self._pool.block_tokens
        if session is not None and from_session >= from_index:
            self._move(session, sequence, from_session)
            return sequence.computed
        for block in shared:
            self._pool.acquire(block)
        if session is not None:
            self._release(session)
        sequence.blocks = shared
        sequence.computed = from_index
        self._restart_index(sequence)
        return from_index

    def keep(self, sequence: Sequence, ledger: Ledger, *, can_reuse: bool) -> None:
        """Hand the blocks of a sequence that ended over to its session, or let them go if it has none."""
        if sequence.session is None:
            self.drop(sequence)
            return
        old = self._sessions.pop(sequence.session, None)
        if old is not None:
            self._release(old)
        session = Session(ledger)
        if can_reuse:
            session.blocks, sequence.blocks = sequence.blocks, []
            spare = session.blocks[self._pool.needed(sequence.computed) :]
            self._pool.release(spare)
            del session.blocks[len(session.blocks) - len(spare) :]
            session.computed, session.indexed = sequence.computed, sequence.indexed
            session.last_digest = sequence.last_digest
        self._drop_blocks_of(sequence)
        self._sessions[sequence.session] = session
        while len(self._sessions) > MAX_SESSIONS:
            _, oldest = self._sessions.popitem(last=False)
            self._release(oldest)

    def drop(self, sequence: Sequence) -> None:
        """Let go of everything a sequence holds; full blocks stay findable as prefixes."""
        self._drop_blocks_of(sequence)

    def end(self, name: str) -> None:
        session = self._sessions.pop(name, None)
        if session is not None:
            self._release(session)

    def evict_one(self) -> bool:
        """Free the blocks of the session unused for longest; False if no idle session holds any."""
        for session in self._sessions.values():
            if session.blocks:
                self._release(session)
                return True
        return False

    def forget_everything(self) -> None:
        for session in self._sessions.values():
            self._release(session)
        self._sessions.clear()

    def reset(self) -> None:
        """Forget everything without giving blocks back: the pool starts afresh too."""
        self._sessions.clear()

    def _usable(self, session: Session, sequence: Sequence, limit: int) -> int:
        known = session.ledger.ids
        agreed = min(session.computed, limit)
        if list(known[:agreed]) == sequence.ids[:agreed]:
            return agreed
        return next(index for index in range(agreed) if known[index] != sequence.ids[index])

    def _move(self, session: Session, sequence: Sequence, tokens: int) -> None:
        size = self._pool.block_tokens
        blocks, session.blocks, session.computed = session.blocks, [], 0
        keep = self._pool.needed(tokens)
        self._pool.release(blocks[keep:])
        blocks = blocks[:keep]
        if tokens % size and not self._pool.is_private(blocks[-1]):
            # The last block will be written into, and others may be reading it as their prefix.
            self._pool.release(blocks[-1:])
            blocks = blocks[:-1]
            tokens -= tokens % size
        sequence.blocks, sequence.computed = blocks, tokens
        if session.indexed <= tokens // size:
            sequence.indexed, sequence.last_digest = session.indexed, session.last_digest
        else:
            self._restart_index(sequence)

    def _restart_index(self, sequence: Sequence) -> None:
        """Offer the blocks anew; those already in the index are found there."""
        sequence.indexed, sequence.last_digest = 0, sequence.salt

    def _drop_blocks_of(self, sequence: Sequence) -> None:
        blocks, sequence.blocks = sequence.blocks, []
        sequence.computed = sequence.indexed = 0
        sequence.last_digest = sequence.salt
        self._pool.release(blocks)

    def _release(self, session: Session) -> None:
        blocks, session.blocks, session.computed = session.blocks, [], 0
        session.indexed, session.last_digest = 0, b""
        self._pool.release(blocks)
