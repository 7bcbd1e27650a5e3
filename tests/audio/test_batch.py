from __future__ import annotations

import asyncio
import threading

import pytest

from app.audio.batch import BatchWorker
from app.errors import InvalidRequest, Overloaded, StageError, StageUnavailable


class Gate:
    """Work that stops at a gate, so that a test can let others queue up behind it."""

    def __init__(self):
        self.open = threading.Event()
        self.begun = threading.Event()
        self.batches = []

    def run(self, batch):
        self.batches.append(list(batch))
        self.begun.set()
        assert self.open.wait(10)
        return [piece * 10 for piece in batch]


def worker(gate, *, max_waiting=4, choose=lambda waiting: range(min(len(waiting), 3))):
    return BatchWorker("test work", gate.run, max_waiting=max_waiting, choose=choose)


async def begin(work, gate, pieces):
    task = asyncio.create_task(work.submit(pieces))
    await asyncio.to_thread(gate.begun.wait, 10)
    return task


async def test_what_waits_together_runs_together_and_each_gets_its_own_result():
    gate = Gate()
    work = worker(gate)
    first = await begin(work, gate, [1])
    others = [asyncio.create_task(work.submit([number])) for number in (2, 3, 4, 5)]
    await asyncio.sleep(0)
    gate.open.set()
    assert await first == [10]
    assert await asyncio.gather(*others) == [[20], [30], [40], [50]]
    assert gate.batches == [[1], [2, 3, 4], [5]]
    await work.close()


async def test_a_full_queue_refuses_and_goes_on():
    gate = Gate()
    work = worker(gate, max_waiting=2)
    first = await begin(work, gate, [1])
    waiting = [asyncio.create_task(work.submit([number])) for number in (2, 3)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="test work has 2"):
        await work.submit([4])
    gate.open.set()
    assert [await task for task in (first, *waiting)] == [[10], [20], [30]]
    assert await work.submit([4]) == [40]
    await work.close()


async def test_work_whose_waiter_left_never_begins():
    gate = Gate()
    work = worker(gate)
    first = await begin(work, gate, [1])
    left = asyncio.create_task(work.submit([2]))
    stayed = asyncio.create_task(work.submit([3]))
    await asyncio.sleep(0)
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    gate.open.set()
    assert await first == [10]
    assert await stayed == [30]
    assert gate.batches == [[1], [3]]
    await work.close()


async def test_leaving_during_the_work_disturbs_nobody():
    gate = Gate()
    work = worker(gate)
    first = await begin(work, gate, [1])
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.open.set()
    assert await work.submit([2]) == [20]
    await work.close()


async def test_work_that_nobody_waits_for_any_more_knows_it_and_can_give_up():
    gate, wanted = Gate(), []

    def run(batch):
        results = gate.run(batch)
        wanted.append((list(batch), work.wanted))
        if not work.wanted:
            raise Overloaded("given up")
        return results

    work = BatchWorker("test work", run, max_waiting=4, choose=lambda waiting: range(len(waiting)))
    first = await begin(work, gate, [1])
    left, stayed = (asyncio.create_task(work.submit([number])) for number in (2, 3))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    gate.begun.clear()
    gate.open.set()
    assert await asyncio.gather(left, stayed) == [[20], [30]]
    gate.open.clear()
    gate.begun.clear()
    left, stayed = (asyncio.create_task(work.submit([number])) for number in (4, 5))
    await asyncio.to_thread(gate.begun.wait, 10)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    gate.open.set()
    assert await stayed == [50]
    assert wanted == [([1], False), ([2, 3], True), ([4, 5], True)]
    await work.close()


async def test_a_failure_fails_its_own_batch_only():
    def run(batch):
        if 13 in batch:
            raise ValueError("unlucky")
        if 14 in batch:
            raise InvalidRequest("not that")
        return batch

    work = BatchWorker("test work", run, max_waiting=8, choose=lambda waiting: [0])
    results = await asyncio.gather(*(work.submit([n]) for n in (1, 13, 14, 2)), return_exceptions=True)
    assert results[0] == [1]
    assert results[3] == [2]
    assert type(results[1]) is StageError
    assert str(results[1]) == "test work failed: unlucky"
    assert isinstance(results[2], InvalidRequest)
    await work.close()


async def test_close_ends_the_thread_and_refuses_what_waits():
    gate = Gate()
    work = worker(gate)
    first = await begin(work, gate, [1])
    waits = asyncio.create_task(work.submit([2]))
    await asyncio.sleep(0)
    closing = asyncio.create_task(work.close())
    with pytest.raises(StageUnavailable):
        await waits
    gate.open.set()
    await closing
    assert await first == [10]
    assert "test work" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(StageUnavailable, match="shut down"):
        await work.submit([3])
    await work.close()


async def test_a_worker_that_was_never_used_has_no_thread_and_closes():
    work = worker(Gate())
    assert "test work" not in {thread.name for thread in threading.enumerate()}
    await work.close()


async def test_idle_means_that_nothing_waits_and_nothing_is_done_and_holds_as_soon_as_a_result_is_known():
    gate = Gate()
    work = worker(gate)
    assert work.idle
    first = await begin(work, gate, [1])
    assert not work.idle
    second = asyncio.create_task(work.submit([2]))
    gate.open.set()
    await asyncio.gather(first, second)
    assert work.idle
    await work.close()


async def test_what_is_not_urgent_is_left_for_when_nothing_else_waits():
    gate = Gate()
    work = worker(gate, choose=lambda waiting: [max(range(len(waiting)), key=lambda index: waiting[index])])
    tasks = [await begin(work, gate, [1])] + [asyncio.create_task(work.submit([number])) for number in (2, 4, 3)]
    await asyncio.sleep(0)
    gate.open.set()
    await asyncio.gather(*tasks)
    assert gate.batches == [[1], [4], [3], [2]]
    await work.close()
