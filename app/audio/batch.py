"""Native work off the event loop: one thread, a bounded queue, and neighbours in the queue done together."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from app.errors import Overloaded, ParleyError, StageError, StageUnavailable
from app.telemetry.scheduling import step_back

Work = TypeVar("Work")
Result = TypeVar("Result")


@dataclass(slots=True)
class _Job(Generic[Work, Result]):
    work: Work
    done: Future[Result]
    left: bool = False
    """Nobody waits for it any more."""


class BatchWorker(Generic[Work, Result]):
    """Runs ``run(batch)`` on a thread of its own; ``run`` gives one result per piece of work, in order.

    ``choose(waiting)`` says which of the waiting pieces, oldest first, go next, by index; it must name one, and
    the oldest of those that must not starve. Work whose waiter was cancelled never begins; ``run`` may look at
    ``wanted`` on its way and give up by raising. An exception of ``run``
    fails its own batch only, as StageError unless it is one of Parley's errors already.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[Sequence[Work]], Sequence[Result]],
        *,
        max_waiting: int,
        choose: Callable[[Sequence[Work]], Sequence[int]],
    ) -> None:
        self.name = name
        self._run = run
        self._choose = choose
        self._max_waiting = max_waiting
        self._jobs: deque[_Job[Work, Result]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._at_work = False
        self._in_hand: list[_Job[Work, Result]] = []
        self._thread: threading.Thread | None = None
        self._ended: Future[None] = Future()

    @property
    def waiting(self) -> int:
        return len(self._jobs)

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is being done: what is submitted now begins now."""
        with self._changed:
            return not self._jobs and not self._at_work

    @property
    def wanted(self) -> bool:
        """Somebody still waits for some of the batch in hand. For ``run``, on the worker's thread."""
        return not all(job.left for job in self._in_hand)

    async def submit(self, works: Sequence[Work]) -> list[Result]:
        """The results of ``works``, which wait and may run together or apart.

        Raises Overloaded when more than ``max_waiting`` would wait (an idle worker takes any number).
        """
        jobs: list[_Job[Work, Result]] = [_Job(work, Future()) for work in works]
        with self._changed:
            if self._closing:
                raise StageUnavailable(f"{self.name} has been shut down")
            if self._jobs and len(self._jobs) + len(jobs) > self._max_waiting:
                raise Overloaded(f"{self.name} has {len(self._jobs)} pieces of work waiting, as many as it may")
            self._jobs.extend(jobs)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            return list(await asyncio.gather(*(asyncio.wrap_future(job.done) for job in jobs)))
        finally:
            for job in jobs:
                job.left = True
                job.done.cancel()

    async def close(self) -> None:
        """Finish the batch in hand, refuse the rest, end the thread. Idempotent."""
        with self._changed:
            self._closing = True
            refused = list(self._jobs)
            self._jobs.clear()
            self._changed.notify()
        for job in refused:
            if job.done.set_running_or_notify_cancel():
                job.done.set_exception(StageUnavailable(f"{self.name} was shut down"))
        if self._thread is not None:
            await asyncio.shield(asyncio.wrap_future(self._ended))
            self._thread.join()

    def _work(self) -> None:
        step_back()
        while batch := self._next_batch():
            try:
                results = self._run([job.work for job in batch])
            except Exception as error:
                failure = error if isinstance(error, ParleyError) else StageError(f"{self.name} failed: {error}")
                self._at_work = False  # before anybody hears of it: what they submit next is to find us idle
                for job in batch:
                    job.done.set_exception(failure)
            else:
                self._at_work = False
                for job, result in zip(batch, results, strict=True):
                    job.done.set_result(result)
        self._ended.set_result(None)

    def _next_batch(self) -> list[_Job[Work, Result]]:
        """Wait for work; empty when closing. All that is returned is marked as begun."""
        with self._changed:
            while True:
                while not self._jobs and not self._closing:
                    self._changed.wait()
                if self._closing:
                    return []
                live = [job for job in self._jobs if not job.done.cancelled()]
                chosen = set(self._choose([job.work for job in live])) if live else set()
                self._jobs = deque(job for index, job in enumerate(live) if index not in chosen)
                batch = [live[index] for index in sorted(chosen)]
                batch = [job for job in batch if job.done.set_running_or_notify_cancel()]
                if batch:
                    self._at_work = True
                    self._in_hand = batch
                    return batch
