from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.blocks import BlockPool

TOTAL, SIZE = 12, 4


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 99)), max_size=150))
def test_the_books_balance_after_any_sequence_of_operations(operations: list[tuple[int, int]]) -> None:
    pool = BlockPool(TOTAL, SIZE)
    owners: list[list[int]] = []
    refs = [0] * TOTAL
    for kind, number in operations:
        if kind <= 1:
            taken = pool.allocate(number % 4 + 1)
            if taken is not None:
                assert all(refs[block] == 0 for block in taken), "a held block was handed out"
                owners.append(taken)
                for block in taken:
                    refs[block] += 1
        elif kind == 2 and owners:
            blocks = owners.pop(number % len(owners))
            pool.release(blocks)
            for block in blocks:
                refs[block] -= 1
        elif kind == 3 and owners:
            parent = b""
            for block in owners[number % len(owners)]:
                parent = pool.register(block, parent, [number % 3] * SIZE)
        elif kind == 4:
            found = pool.match([number % 3] * SIZE * 3)
            for block in found:
                pool.acquire(block)
                refs[block] += 1
            owners.append(found)
        else:
            pool.unregister(number % TOTAL)
        pool.check()
        assert pool.held == sum(count > 0 for count in refs)
        assert pool.free + pool.cached + pool.held == TOTAL


def test_a_prefix_outlives_its_owner_until_the_room_is_needed() -> None:
    pool = BlockPool(4, SIZE)
    blocks = pool.allocate(2)
    assert blocks is not None
    first = pool.register(blocks[0], b"", [1] * SIZE)
    pool.register(blocks[1], first, [2] * SIZE)
    pool.release(blocks)
    assert pool.cached == 2
    assert pool.match([1] * SIZE + [2] * SIZE + [3]) == blocks
    assert pool.allocate(3) is not None
    assert pool.match([1] * SIZE + [2] * SIZE) == blocks[:1], "the end of a prefix goes first"


def test_another_tenants_prefix_is_not_found() -> None:
    pool = BlockPool(4, SIZE)
    blocks = pool.allocate(1)
    assert blocks is not None
    pool.register(blocks[0], b"tenant one", [1] * SIZE)
    assert pool.match([1] * SIZE, b"tenant one") == blocks
    assert pool.match([1] * SIZE, b"tenant two") == []


def test_too_few_blocks_change_nothing() -> None:
    pool = BlockPool(3, SIZE)
    assert pool.allocate(4) is None
    assert pool.free == 3


def test_neighbours_are_handed_out_together() -> None:
    pool = BlockPool(16, SIZE)
    one = pool.allocate(3)
    two = pool.allocate(3)
    assert one is not None
    assert two is not None
    grown = pool.allocate(1, after=one[-1])
    assert grown == [one[-1] + 1]


def test_releasing_twice_is_an_error() -> None:
    pool = BlockPool(2, SIZE)
    blocks = pool.allocate(1)
    assert blocks is not None
    pool.release(blocks)
    with pytest.raises(ValueError, match="more often"):
        pool.release(blocks)
