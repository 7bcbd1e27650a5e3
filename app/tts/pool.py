"""Blocking synthesis on a bounded pool of threads, seen from the event loop as a stream of chunks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.audio.frames import Pcm
from app.errors import Overloaded, ParleyError, StageError, StageTimeout, StageUnavailable
from app.telemetry.scheduling import step_back

Speak: TypeAlias = Callable[[str, str, float], Iterable[Pcm]]
"""(text, voice, speed) -> chunks; blocks."""
Loaded = TypeVar("Loaded")

_PEAK = 32767.0
_SENTENCE_MARKS = ".!?…。！？"
_BREAK_MARKS = ",;:—，、；："
_SENTENCE_PAUSE_MS = 240
_BREAK_PAUSE_MS = 120
_JOIN_MS = 40
"""Pauses between clauses as in read speech; the voices' own edges (0.3 to 0.5 s) are longer than that."""


@dataclass(order=True, slots=True)
class _Clause:
    """One clause on its way; ordered by when it will be missed, then by arrival."""

    missed_at: float
    arrival: int
    text: str = field(compare=False)
    voice: str = field(compare=False)
    speed: float = field(compare=False)
    hand_over: Callable[[Pcm | Exception | None], None] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)


class VoicePool:
    """Runs ``speak(text, voice, speed)``, which gives int16 chunks, on ``threads`` threads, the most urgent clause first.

    A clause is missed once its listener has heard all that is queued for them: at once when it is the first of
    a reply, in some seconds when much is queued already. Earliest deadline first (Liu and Layland 1973) lets nobody
    starve: whoever has waited for those seconds is as urgent as one who has just come.
    """

    def __init__(self, name: str, speak: Speak, *, threads: int, max_waiting: int) -> None:
        self._name = name
        self._speak = speak
        self._max_running = max(1, threads)
        self._max_waiting = max_waiting
        self._pool = ThreadPoolExecutor(self._max_running, thread_name_prefix=name, initializer=step_back)
        self._lock = threading.Lock()  # of the waiting clauses, which the threads take for themselves
        self._waiting: list[_Clause] = []
        self._arrivals = count()
        self._jobs = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def call(self, work: Callable[[], Loaded]) -> Loaded:
        """Run ``work`` on the pool: loading, which must not block the loop either."""
        return await asyncio.wrap_future(self._pool.submit(work))

    async def stream(
        self, text: str, voice: str = "", speed: float = 1.0, *, slack_s: float = 0.0, timeout_s: float | None = None
    ) -> AsyncGenerator[Pcm, None]:
        """The chunks of ``text``. Closing stops the work at its next chunk, or before it has begun.

        ``slack_s`` says how long the listener can do without them; ``timeout_s`` bounds the wait for each chunk. Text
        without a letter or digit yields nothing. Raises Overloaded when ``max_waiting`` clauses wait already,
        StageTimeout, StageUnavailable once closed, StageError when the voice fails.
        """
        if not any(char.isalnum() for char in text):
            return
        if self._jobs >= self._max_running + self._max_waiting:
            raise Overloaded(f"The voice has {self._max_waiting} clauses waiting (tts.max_waiting).")
        # Bounded by the clause itself: one clause is a few chunks of a few seconds.
        chunks: asyncio.Queue[Pcm | Exception | None] = asyncio.Queue()
        clause = self._submit(text, voice, speed, slack_s, chunks)
        try:
            while True:
                try:
                    async with asyncio.timeout(timeout_s):
                        item = await chunks.get()
                except TimeoutError:
                    raise StageTimeout(f"{self._name} made no sound for {timeout_s:.1f} s (tts.timeout_s).") from None
                if item is None:
                    return
                if isinstance(item, ParleyError):
                    raise item
                if isinstance(item, Exception):
                    raise StageError(f"{self._name} could not speak: {item}") from item
                if len(item):
                    yield item
        finally:
            clause.cancelled = True
            if self._withdraw(clause):
                self._done()

    def _submit(
        self, text: str, voice: str, speed: float, slack_s: float, chunks: asyncio.Queue[Pcm | Exception | None]
    ) -> _Clause:
        loop = asyncio.get_running_loop()

        def hand_over(item: Pcm | Exception | None) -> None:
            if not clause.cancelled:
                loop.call_soon_threadsafe(chunks.put_nowait, item)

        def work() -> None:
            if (taken := self._most_urgent()) is not None:
                self._run(taken)
                loop.call_soon_threadsafe(self._done)

        clause = _Clause(loop.time() + slack_s, next(self._arrivals), text, voice, speed, hand_over)
        with self._lock:
            heappush(self._waiting, clause)
        try:
            self._pool.submit(work)  # takes the most urgent clause of that moment, which need not be this one
        except RuntimeError:  # shut down
            self._withdraw(clause)
            raise StageUnavailable(f"{self._name} has been closed.") from None
        self._jobs += 1
        self._idle.clear()
        return clause

    def _run(self, clause: _Clause) -> None:
        """On a thread of the pool."""
        try:
            for chunk in self._speak(clause.text, clause.voice, clause.speed):
                if clause.cancelled:
                    return
                clause.hand_over(chunk)
            clause.hand_over(None)
        except Exception as error:
            clause.hand_over(error)

    def _most_urgent(self) -> _Clause | None:
        with self._lock:
            return heappop(self._waiting) if self._waiting else None

    def _withdraw(self, clause: _Clause) -> bool:
        """Take ``clause`` out of those that wait; False when it has been begun."""
        with self._lock:
            if clause not in self._waiting:
                return False
            self._waiting.remove(clause)
            heapify(self._waiting)
            return True

    def _done(self) -> None:
        self._jobs -= 1
        if not self._jobs:
            self._idle.set()

    async def close(self) -> None:
        """Drop the clauses that wait, and return once those in hand have ended."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            dropped, self._waiting = self._waiting, []
        for clause in dropped:
            clause.hand_over(StageUnavailable(f"{self._name} has been closed."))
            self._done()
        await self._idle.wait()


def to_pcm(sound: NDArray[np.float32]) -> Pcm:
    """Float samples in -1..1 as int16; a clause that would clip is turned down as a whole instead."""
    if not len(sound):
        return np.zeros(0, np.int16)
    scale = _PEAK / max(1.0, float(np.abs(sound).max()))
    return (sound * scale).astype(np.int16)


def pause_ms(text: str) -> int:
    """How long a speaker rests after ``text``: most after a sentence, hardly where it was cut without a mark."""
    last = text.rstrip("\"'”’)")[-1:]
    if last in _SENTENCE_MARKS:
        return _SENTENCE_PAUSE_MS
    return _BREAK_PAUSE_MS if last in _BREAK_MARKS else _JOIN_MS


def trim_silence(pcm: Pcm, rate_hz: int, *, lead_ms: int = 10, tail_ms: int = _SENTENCE_PAUSE_MS) -> Pcm:
    """``pcm`` with at most ``lead_ms`` before and ``tail_ms`` after its speech: an early start, a natural join.

    Sound under 1 % of the peak counts as silence; all silence becomes nothing.
    """
    if not len(pcm):
        return pcm
    loudness = np.abs(pcm.astype(np.int32))
    loud = np.flatnonzero(loudness > max(16, int(loudness.max() * 0.01)))
    if not len(loud):
        return pcm[:0]
    start = max(0, int(loud[0]) - lead_ms * rate_hz // 1000)
    return pcm[start : int(loud[-1]) + 1 + tail_ms * rate_hz // 1000]
