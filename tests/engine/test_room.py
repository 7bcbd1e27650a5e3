from __future__ import annotations

from app.engine.blocks import BlockPool
from app.engine.messages import SamplingSpec
from app.engine.room import Room
from app.engine.sequence import Sequence
from app.engine.sessions import SessionStore

SIZE = 32


def waiting(pool: BlockPool, key: int, blocks: int) -> Sequence:
    """A reply that waits and has found so many blocks computed."""
    sequence = Sequence(key, [7] * 4 * SIZE, 4 * SIZE, SamplingSpec(), seed=1, arrived_s=0.0)
    sequence.blocks = pool.allocate(blocks) or []
    sequence.computed = blocks * SIZE
    return sequence


def test_who_looks_for_room_does_not_lose_what_it_has_found() -> None:
    pool = BlockPool(5, SIZE)
    assert pool.allocate(2), "somebody runs"
    needy = waiting(pool, 1, 2)
    room = Room(pool, SessionStore(pool), [needy])
    held = list(needy.blocks)
    assert not room.grow(needy, 4 * SIZE)
    assert (needy.blocks, needy.computed) == (held, 2 * SIZE)
    pool.check()


def test_others_who_wait_give_what_they_have_found_the_least_urgent_first() -> None:
    pool = BlockPool(8, SIZE)
    needy, urgent, last = (waiting(pool, key, 2) for key in range(3))
    room = Room(pool, SessionStore(pool), [needy, urgent, last])
    assert room.grow(needy, 6 * SIZE)
    assert [len(sequence.blocks) for sequence in (needy, urgent, last)] == [6, 2, 0]
    assert last.computed == 0
    pool.check()
