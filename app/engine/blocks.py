"""Accounting of the KV pool: which block belongs to whom, and which hold a prefix worth keeping.

Every block is in exactly one of three states: free, held (by one or more owners) or cached
(owned by nobody, but a later prompt with the same prefix may take it up). Nothing here touches memory.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

_FREE_RUN = re.compile(rb"\x01+")


@dataclass(slots=True)
class Block:
    refs: int = 0
    digest: bytes | None = None
    """Key in the prefix index, if the block is in it."""
    tokens: tuple[int, ...] = ()
    parent: bytes = b""


class BlockPool:
    """A fixed number of blocks of ``block_tokens`` tokens.

    Freshly freed neighbours are handed out together where possible: a sequence whose blocks are
    consecutive is attended to without gathering (see attention.py).
    """

    def __init__(self, total: int, block_tokens: int) -> None:
        if total < 1 or block_tokens < 1:
            raise ValueError("a block pool needs at least one block of at least one token")
        self.total = total
        self.block_tokens = block_tokens
        self.evictions = 0
        self.reset()

    def reset(self) -> None:
        """Every block free, every prefix forgotten, whoever thought to own one."""
        self._blocks = [Block() for _ in range(self.total)]
        self._is_free = bytearray(b"\x01" * self.total)
        """One byte a block: runs of free ones are found at the speed of a search in bytes."""
        self._free = self.total
        self._cached: OrderedDict[int, None] = OrderedDict()
        self._index: dict[bytes, int] = {}

    @property
    def free(self) -> int:
        return self._free

    @property
    def cached(self) -> int:
        return len(self._cached)

    @property
    def held(self) -> int:
        return self.total - self._free - len(self._cached)

    @property
    def available(self) -> int:
        """Blocks that can be handed out now: the free ones, and the cached ones at the cost of their contents."""
        return self._free + len(self._cached)

    def needed(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)

    def make_private(self, block: int) -> bool:
        """Let its owner write into it: it is no prefix any more. False, and no change, if somebody shares it."""
        if self._blocks[block].refs > 1:
            return False
        self.unregister(block)
        return True

    def allocate(self, count: int, after: int | None = None) -> list[int] | None:
        """``count`` blocks, following ``after`` if that neighbour is free; None, and no change, if too few are left."""
        if count > self.available:
            return None
        taken: list[int] = []
        last = after
        for left in range(count, 0, -1):
            if not self._free:
                self._evict_oldest()
            follows = last is not None and last + 1 < self.total and self._is_free[last + 1]
            block = last + 1 if last is not None and follows else self._start_of_run(left)
            self._is_free[block] = 0
            self._free -= 1
            self._blocks[block].refs = 1
            taken.append(block)
            last = block
        return taken

    def acquire(self, block: int) -> None:
        """One more owner for a held or cached block."""
        entry = self._blocks[block]
        if entry.refs == 0:
            del self._cached[block]
        entry.refs += 1

    def release(self, blocks: Sequence[int]) -> None:
        """One owner fewer for each. The end of a prefix is let go first, so that it is evicted first."""
        for block in reversed(blocks):
            entry = self._blocks[block]
            if entry.refs < 1:
                raise ValueError(f"block {block} is released more often than it was taken")
            entry.refs -= 1
            if entry.refs == 0:
                if entry.digest is None:
                    self._set_free(block)
                else:
                    self._cached[block] = None

    def register(self, block: int, parent: bytes, tokens: Sequence[int]) -> bytes:
        """Enter a full, written block into the prefix index; returns its digest, the parent of the next block.

        The first block with some contents keeps the entry; a second with the same contents stays private.
        """
        if len(tokens) != self.block_tokens:
            raise ValueError("only full blocks have a place in the prefix index")
        digest = prefix_digest(parent, tokens)
        entry = self._blocks[block]
        if digest not in self._index and entry.digest is None:
            self._index[digest] = block
            entry.digest, entry.tokens, entry.parent = digest, tuple(tokens), parent
        return digest

    def unregister(self, block: int) -> None:
        """Take a block out of the prefix index, because its owner is going to overwrite it."""
        entry = self._blocks[block]
        if entry.digest is not None:
            del self._index[entry.digest]
            entry.digest, entry.tokens, entry.parent = None, (), b""
            if entry.refs == 0:
                del self._cached[block]
                self._set_free(block)

    def digest(self, block: int) -> bytes | None:
        """The block's key in the prefix index, None if it has no entry there."""
        return self._blocks[block].digest

    def match(self, tokens: Sequence[int], parent: bytes = b"", *, start: int = 0) -> list[int]:
        """The longest chain of indexed blocks that goes on with ``tokens`` from ``start``. Takes no ownership.

        ``parent`` is the digest of what comes before; at the very beginning, the tenant's salt.
        A digest only finds a candidate; the tokens themselves decide.
        """
        found: list[int] = []
        for at in range(start, len(tokens) - self.block_tokens + 1, self.block_tokens):
            piece = tuple(tokens[at : at + self.block_tokens])
            digest = prefix_digest(parent, piece)
            block = self._index.get(digest)
            if block is None:
                break
            entry = self._blocks[block]
            if entry.tokens != piece or entry.parent != parent:
                break
            found.append(block)
            parent = digest
        return found

    def drop_cached(self) -> None:
        """Forget every prefix that nobody owns."""
        while self._cached:
            self._evict_oldest()

    def check(self, owners: Iterable[Sequence[int]] | None = None) -> None:
        """Raises AssertionError when the books do not balance; for tests and after a failed step.

        ``owners`` are the blocks of each owner there is; the counts of owners must agree with them.
        """
        if owners is not None:
            counted = Counter(block for blocks in owners for block in blocks)
            for index, entry in enumerate(self._blocks):
                if entry.refs != counted.get(index, 0):
                    raise AssertionError(f"block {index} has {counted.get(index, 0)} owners, not {entry.refs}")
                if entry.refs > 1 and entry.digest is None:
                    raise AssertionError(f"block {index} is shared, but no prefix")
        held = 0
        for index, entry in enumerate(self._blocks):
            held += entry.refs > 0
            if (entry.refs > 0) + (index in self._cached) + self._is_free[index] != 1:
                raise AssertionError(f"block {index} is not in exactly one state")
            if index in self._cached and entry.digest is None:
                raise AssertionError(f"block {index} is cached, but no prefix")
        if self._free + len(self._cached) + held != self.total:
            raise AssertionError(f"{self._free} free + {len(self._cached)} cached + {held} held != {self.total}")
        if any(self._blocks[block].digest != digest for digest, block in self._index.items()):
            raise AssertionError("the prefix index points at another block's contents")

    def _evict_oldest(self) -> None:
        block = next(iter(self._cached))
        self.unregister(block)
        self.evictions += 1

    def _set_free(self, block: int) -> None:
        self._is_free[block] = 1
        self._free += 1

    def _start_of_run(self, count: int) -> int:
        """Where to begin a run of ``count``: in the middle of the widest gap if it is roomy, so both sides can grow."""
        widest = max(_FREE_RUN.finditer(self._is_free), key=lambda gap: gap.end() - gap.start())
        start, spare = widest.start(), widest.end() - widest.start() - count
        return start + spare // 2 if spare >= count and start > 0 else start


def prefix_digest(parent: bytes, tokens: Sequence[int]) -> bytes:
    """128 bits that name a block's tokens and everything before them."""
    return hashlib.blake2b(array("q", tokens).tobytes(), key=parent[:64], digest_size=16).digest()


def is_consecutive(blocks: Sequence[int]) -> bool:
    return all(right == left + 1 for left, right in pairwise(blocks))
