"""The engine: one thread that owns model and KV pool, and repeats one step for everybody.

A step: take commands (cancels free their blocks here), plan, run, draw, emit. Every request gets
exactly one terminal event, and nothing that a request does ends the loop.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from concurrent.futures import Executor
from functools import partial
from typing import Protocol

from app.engine.beginnings import Beginnings, Outcome, Prepared
from app.engine.blocks import BlockPool
from app.engine.endings import Endings
from app.engine.messages import Delta, Failed, Figures, Submit
from app.engine.meters import Meters
from app.engine.prompt import PromptBuilder
from app.engine.requests import Request, RequestBook, Sink
from app.engine.scheduler import Limits, Scheduler, step_size
from app.engine.sequence import Chunk, Draw, RunnerTraits
from app.engine.sessions import SessionStore
from app.errors import Overloaded, ParleyError, StageError

log = logging.getLogger(__name__)


class StepBackend(Protocol):
    """The model as the engine sees it (see runner.Backend)."""

    traits: RunnerTraits

    def step(self, chunks: SequenceOf[Chunk]) -> list[Draw]:
        """Run the chunks; a draw for each chunk that samples, in order."""
        ...

    def forget(self, key: int) -> None: ...


class Engine:
    """Safe to call from any thread, except ``step``, which belongs to the thread of ``run`` or to a test."""

    def __init__(
        self,
        backend: StepBackend,
        prompts: PromptBuilder,
        pool: BlockPool,
        limits: Limits,
        *,
        eos_ids: frozenset[int],
        max_waiting: int = 256,
        tokenising: Executor | None = None,
        after_step: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``tokenising`` prepares prompts away from the engine's thread; None prepares them in ``submit``."""
        self._backend = backend
        self._pool = pool
        self._eos_ids = eos_ids
        self._most_open = limits.max_running + max_waiting
        self._after_step = after_step
        self._clock = clock
        self._meters = Meters()
        self._book = RequestBook(self._most_open)
        self.sessions = SessionStore(pool)
        self.scheduler = Scheduler(pool, self.sessions, limits, backend.traits)
        self.beginnings = Beginnings(prompts, self._book, self.sessions, self.scheduler, tokenising, self._prepared)
        self._endings = Endings(
            self._book,
            self.scheduler,
            self.sessions,
            self._meters,
            backend.traits,
            forget=self._forget,
            begin=self.beginnings.prepare_soon,
            clock=clock,
        )
        self._wake = threading.Event()
        self._commands: deque[Callable[[], None]] = deque()
        self._by_sequence: dict[int, Request] = {}
        self._stopping = False
        self._step_began_s: float | None = None

    # --- from any thread -----------------------------------------------------------------

    def submit(self, submit: Submit, sink: Sink) -> int:
        """Take a request; returns the key to cancel it by. Whatever is wrong with it comes as its Failed event."""
        entry = self._book.enter(submit, sink, self._clock())
        for older in entry.superseded:
            self._command(partial(self._endings.cancel, older))
        if entry.refused:
            self._command(partial(self._endings.fail, entry.request, self._overloaded()))
        elif entry.may_begin:
            self.beginnings.prepare_soon(entry.request)
        return entry.request.key

    def cancel(self, key: int) -> None:
        """Ends the request within a step. Unknown and ended keys are fine."""
        request = self._book.get(key)
        if request is not None:
            self._command(partial(self._endings.cancel, request))

    def end_session(self, session: str) -> None:
        self._command(partial(self._end_session, session))

    def figures(self, memory_mb: float = 0.0) -> Figures:
        began = self._step_began_s
        meters, scheduler, pool = self._meters, self.scheduler, self._pool
        return Figures(
            running=len(scheduler.running),
            waiting=len(self._book) - len(scheduler.running),
            sessions=len(self.sessions),
            blocks_total=pool.total,
            blocks_free=pool.free,
            blocks_cached=pool.cached,
            blocks_held=pool.held,
            steps=meters.steps,
            prefill_tokens=meters.prefill_tokens,
            decode_tokens=meters.decode_tokens,
            cached_tokens=meters.cached_tokens,
            preemptions=scheduler.preemptions,
            evictions=pool.evictions,
            cancelled=meters.cancelled,
            failed=meters.failed,
            finished=meters.completed,
            step_age_s=self._clock() - began if began is not None else 0.0,
            last_step_ms=meters.last_step_ms,
            memory_mb=memory_mb,
        )

    def stop(self) -> None:
        """Let ``run`` return after the current step; open requests end as cancelled."""
        self._stopping = True
        self._wake.set()

    # --- the engine's thread -------------------------------------------------------------

    def run(self) -> None:
        """Steps for as long as there is work, sleeps when there is none; returns after ``stop``."""
        while not self._stopping:
            self._wake.clear()
            if not self._safe_step() and not self._commands and not self._stopping:
                self._wake.wait()
        self._drain()
        for request in self._book.everybody():
            self._endings.cancel(request)
        self._after_step()

    def step(self) -> bool:
        """One step; False if there was nothing to do."""
        acted = self._drain()
        chunks = self.scheduler.plan(self._clock())
        if chunks:
            self._step_began_s = self._clock()
            try:
                self._run(chunks)
            finally:
                self._step_began_s = None
        if chunks or acted:
            self._after_step()
        return bool(chunks) or acted

    def _safe_step(self) -> bool:
        try:
            return self.step()
        except Exception:
            # A fault of our own books: nothing in the pool can be trusted, but the next request can start anew.
            log.exception("llm.engine_reset")
            self._reset()
            return True

    def _run(self, chunks: list[Chunk]) -> None:
        began = self._clock()
        try:
            draws = self._backend.step(chunks)
        except Exception as error:
            self._isolate(chunks, error)
            return
        self._advance(chunks, draws)
        took_ms = (self._clock() - began) * 1000.0
        self.scheduler.cost.observe(*step_size(chunks), took_ms)
        self._meters.stepped(took_ms, len(chunks))

    def _isolate(self, chunks: list[Chunk], error: Exception) -> None:
        """A step failed: run its sequences one by one, so that only those that fail alone are lost."""
        log.warning("llm.step_failed", extra={"sequences": len(chunks), "error": repr(error)})
        for chunk in chunks:
            request = self._by_sequence[chunk.sequence.key]
            if len(chunks) > 1 and self._backend.traits.can_reuse:
                try:
                    draws = self._backend.step([chunk])
                except Exception as own_error:
                    self._endings.fail(request, StageError(f"the model failed on this request: {own_error}"))
                else:
                    self._advance([chunk], draws)
            else:
                self._endings.fail(request, StageError(f"the model failed on this request: {error}"))

    def _advance(self, chunks: SequenceOf[Chunk], draws: list[Draw]) -> None:
        sampling = [chunk for chunk in chunks if chunk.samples]
        prefilled = sum(chunk.count for chunk in chunks if chunk.count > 1 or not chunk.samples)
        self._meters.steps += 1
        self._meters.prefill_tokens += prefilled
        self._meters.decode_tokens += sum(chunk.count for chunk in chunks) - prefilled
        self.scheduler.complete(chunks)
        for chunk, draw in zip(sampling, draws, strict=True):
            self._take_token(self._by_sequence[chunk.sequence.key], draw)

    def _take_token(self, request: Request, draw: Draw) -> None:
        sequence, text = request.sequence, request.text
        assert sequence is not None
        assert text is not None
        if not sequence.first_token_s:
            sequence.first_token_s = self._clock()
        if draw.token in self._eos_ids and not sequence.sampling.ignore_eos:
            self._endings.finish(request, "stop")
            return
        sequence.ids.append(draw.token)
        shown = text.push(draw.token)
        if shown:
            request.sink(Delta(request.submit.id, shown))
        if text.stopped:
            self._endings.finish(request, "stop")
        elif sequence.reply_tokens >= sequence.max_tokens:
            self._endings.finish(request, "length")

    # --- commands ------------------------------------------------------------------------

    def _prepared(self, request: Request, outcome: Outcome) -> None:
        """From the thread that prepared it."""
        if isinstance(outcome, Prepared):
            self._command(partial(self._admit, request, outcome))
        elif isinstance(outcome, ParleyError):
            self._command(partial(self._endings.fail, request, outcome))
        else:
            self._command(partial(self._endings.cancel, request))

    def _admit(self, request: Request, prepared: Prepared) -> None:
        if request not in self._book:
            return  # cancelled while it was tokenised
        self._by_sequence[request.key] = request
        self.scheduler.add(self.beginnings.sequence(request, prepared))

    def _end_session(self, session: str) -> None:
        for request in self._book.of_session(session):
            self._endings.cancel(request)
        self.sessions.end(session)

    def _command(self, action: Callable[[], None]) -> None:
        self._commands.append(action)
        self._wake.set()

    def _drain(self) -> bool:
        acted = False
        while self._commands:
            self._commands.popleft()()
            acted = True
        return acted

    def _forget(self, key: int) -> None:
        self._by_sequence.pop(key, None)
        self._backend.forget(key)

    def _reset(self) -> None:
        """Everybody is told, and every book is opened anew."""
        for request in self._book.everybody():
            self._meters.failed += 1
            request.sink(Failed(request.submit.id, StageError.code, "the engine had to start afresh"))
            self._backend.forget(request.key)
        self._book.clear()
        self._by_sequence.clear()
        self.scheduler.reset()
        self._meters.resets += 1
        self._after_step()

    def _overloaded(self) -> Overloaded:
        return Overloaded(
            f"{self._most_open} replies are running or waiting (llm.max_running + llm.max_waiting): try again later",
            retry_after_s=max(0.5, self._meters.reply_s),
        )
