"""What the engine keeps of each session between turns: its ledger, and its keys and values while there is room."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from app.engine.blocks import BlockPool
from app.engine.ledger import Ledger
from app.engine.sequence import Sequence, SessionKey

MAX_SESSIONS = 4096
"""Ledgers kept; the one unused for longest is forgotten first and would be rebuilt from its messages."""

MAX_LEDGER_TOKENS = 1_000_000
"""Tokens of all ledgers together, some 100 bytes each; beyond, they are forgotten likewise."""

_NOTHING = Ledger()


@dataclass(slots=True)
class Session:
    """``computed`` of the ledger's ids have their keys and values in ``blocks``."""

    ledger: Ledger
    reply_start: int
    """Where the ids of its last reply begin."""
    used_s: float
    blocks: list[int] = field(default_factory=list)
    computed: int = 0
    indexed: int = 0
    last_digest: bytes = b""


class SessionStore:
    """Sessions in order of use. Only the engine thread changes it; ``ledger`` may be read from anywhere.

    A session's blocks are pinned for ``ttl_s`` seconds after its last turn; then they are ordinary
    cached prefixes. When room is short, the session unused for longest loses its pin first. A session
    without blocks still has its ledger, from which the next turn is computed again.
    """

    def __init__(self, pool: BlockPool, ttl_s: float = 600.0) -> None:
        self._pool = pool
        self._ttl_s = ttl_s
        self._sessions: OrderedDict[SessionKey, Session] = OrderedDict()
        self._holding: OrderedDict[SessionKey, Session] = OrderedDict()
        """Those that have blocks, in the same order."""
        self._ledger_tokens = 0
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def ledger(self, key: SessionKey | None) -> Ledger:
        session = self._sessions.get(key) if key is not None else None
        return session.ledger if session is not None else _NOTHING

    @property
    def idle_blocks(self) -> int:
        """Blocks that sessions hold while none of their replies is being made; shared ones count for each."""
        return sum(len(session.blocks) for session in self._holding.values())

    def holdings(self) -> list[list[int]]:
        """The blocks of each session, for the books to be checked."""
        return [session.blocks for session in self._holding.values()]

    def adopt(self, sequence: Sequence, *, can_reuse: bool) -> int:
        """Give a sequence that starts what is already computed of its prompt; returns how many tokens.

        Taken from its session or from the prefix index, whichever reaches further. At least the last
        token is always run again, because its logits are needed.
        """
        self._drop_blocks_of(sequence)
        key = sequence.session
        session = self._sessions.get(key) if key is not None else None
        if not can_reuse:
            return 0
        limit = len(sequence.ids) - 1
        from_session = _agreed(session, sequence, limit) if session is not None else 0
        shared = self._pool.match(sequence.ids[:limit], sequence.salt)
        from_index = len(shared) * self._pool.block_tokens
        if session is not None and key is not None:
            self._holding.pop(key, None)
            if from_session >= from_index:
                self._move(session, sequence, from_session)
                return sequence.computed
        for block in shared:
            self._pool.acquire(block)
        if session is not None:
            self._release(session)
        if shared:
            sequence.blocks, sequence.computed, sequence.indexed = shared, from_index, len(shared)
            sequence.last_digest = self._pool.digest(shared[-1]) or b""
        return from_index

    def extend(self, sequence: Sequence) -> int:
        """Take up prefixes that others have computed meanwhile; returns how many tokens. Whole blocks only."""
        size = self._pool.block_tokens
        if sequence.indexed * size != sequence.computed:
            return 0
        found = self._pool.match(sequence.ids[:-1], sequence.last_digest, start=sequence.computed)
        for block in found:
            self._pool.acquire(block)
        if found:
            replaced = sequence.blocks[sequence.indexed : sequence.indexed + len(found)]
            sequence.blocks[sequence.indexed : sequence.indexed + len(found)] = found
            self._pool.release(replaced)
            sequence.indexed += len(found)
            sequence.computed += len(found) * size
            sequence.last_digest = self._pool.digest(found[-1]) or b""
        return len(found) * size

    def keep(self, sequence: Sequence, ledger: Ledger, now_s: float, *, can_reuse: bool) -> None:
        """Hand the blocks of a sequence that ended over to its session, or let them go if it has none."""
        key = sequence.session
        if key is None:
            self.drop(sequence)
            return
        self.end(key)
        session = Session(ledger, sequence.prompt_tokens, now_s)
        if can_reuse:
            session.blocks, sequence.blocks = sequence.blocks, []
            session.computed, session.indexed = sequence.computed, sequence.indexed
            session.last_digest = sequence.last_digest
            self._cut(session, session.computed)
        self._drop_blocks_of(sequence)
        self._sessions[key] = session
        if session.blocks:
            self._holding[key] = session
        self._ledger_tokens += len(ledger.ids)
        while len(self._sessions) > MAX_SESSIONS or (
            self._ledger_tokens > MAX_LEDGER_TOKENS and len(self._sessions) > 1
        ):
            self.end(next(iter(self._sessions)))

    def truncate(self, key: SessionKey, heard_tokens: int) -> None:
        """Cut the last reply to its first ``heard_tokens``; the blocks of the rest are free at once."""
        session = self._sessions.get(key)
        if session is None:
            return
        keep = session.reply_start + max(0, heard_tokens)
        if keep >= len(session.ledger.ids):
            return
        self._ledger_tokens -= len(session.ledger.ids) - keep
        session.ledger = session.ledger.first(keep)
        self._cut(session, min(session.computed, keep))
        if not session.blocks:
            self._holding.pop(key, None)

    def drop(self, sequence: Sequence) -> None:
        """Let go of everything a sequence holds; full blocks stay findable as prefixes."""
        self._drop_blocks_of(sequence)

    def end(self, key: SessionKey) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._ledger_tokens -= len(session.ledger.ids)
            self._holding.pop(key, None)
            self._release(session)

    def expire(self, now_s: float) -> None:
        """Unpin what was not used for the time to live."""
        while self._holding:
            key, session = next(iter(self._holding.items()))
            if now_s - session.used_s < self._ttl_s:
                return
            self._evict(key, session)

    def evict_one(self) -> bool:
        """Unpin the session unused for longest; False if none holds any blocks."""
        if not self._holding:
            return False
        self._evict(*next(iter(self._holding.items())))
        return True

    def forget_everything(self) -> None:
        for session in self._sessions.values():
            self._release(session)
        self.reset()

    def reset(self) -> None:
        """Forget everything without giving blocks back: the pool starts afresh too."""
        self._sessions.clear()
        self._holding.clear()
        self._ledger_tokens = 0

    def _evict(self, key: SessionKey, session: Session) -> None:
        del self._holding[key]
        self._release(session)
        self.evictions += 1

    def _move(self, session: Session, sequence: Sequence, tokens: int) -> None:
        size = self._pool.block_tokens
        self._cut(session, tokens)
        blocks, session.blocks, session.computed = session.blocks, [], 0
        if tokens % size and not self._pool.make_private(blocks[-1]):
            # The last block will be written into, and others read it as their prefix.
            self._pool.release(blocks[-1:])
            blocks = blocks[:-1]
            tokens -= tokens % size
        sequence.blocks, sequence.computed = blocks, tokens
        if session.indexed <= tokens // size:
            sequence.indexed, sequence.last_digest = session.indexed, session.last_digest
        # Otherwise the blocks are offered to the index anew; those already in it are found there.

    def _cut(self, session: Session, tokens: int) -> None:
        keep = self._pool.needed(tokens)
        spare = session.blocks[keep:]
        del session.blocks[keep:]
        session.computed = tokens
        self._pool.release(spare)

    def _drop_blocks_of(self, sequence: Sequence) -> None:
        blocks, sequence.blocks = sequence.blocks, []
        sequence.computed = sequence.indexed = 0
        sequence.last_digest = sequence.salt
        self._pool.release(blocks)

    def _release(self, session: Session) -> None:
        blocks, session.blocks, session.computed = session.blocks, [], 0
        session.indexed, session.last_digest = 0, b""
        self._pool.release(blocks)


def _agreed(session: Session, sequence: Sequence, limit: int) -> int:
    """How many computed tokens of the session begin the sequence too."""
    known = session.ledger.ids
    agreed = min(session.computed, limit)
    if list(known[:agreed]) == sequence.ids[:agreed]:
        return agreed
    return next(index for index in range(agreed) if known[index] != sequence.ids[index])
