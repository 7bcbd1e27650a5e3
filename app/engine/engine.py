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

from app.engine.beginnings import Beginnings, Constrain, Outcome, Prepared
from app.engine.blocks import BlockPool
from app.engine.endings import Endings
from app.engine.messages import Failed, Figures, Submit
from app.engine.meters import Meters
from app.engine.plan import step_size
from app.engine.prompt import PromptBuilder
from app.engine.replies import Replies
from app.engine.requests import Request, RequestBook, Sink
from app.engine.scheduler import Limits, Scheduler
from app.engine.sequence import Chunk, Draw, RunnerTraits, SessionKey
from app.engine.sessions import SessionStore
from app.errors import Overloaded, ParleyError, StageError
from app.telemetry.log import log_event

log = logging.getLogger(__name__)

_SHORTEST_RETRY_S, _LONGEST_RETRY_S = 0.5, 30.0


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
        session_ttl_s: float = 600.0,
        tokenising: Executor | None = None,
        constrain: Constrain | None = None,
        after_step: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``tokenising`` prepares prompts away from the engine's thread; None prepares them in ``submit``.

        ``constrain`` makes json_schema possible (see grammar.py).
        """
        self._backend = backend
        self._pool = pool
        self._most_open = limits.max_running + max_waiting
        self._after_step = after_step
        self._clock = clock
        self._meters = Meters()
        self._book = RequestBook(self._most_open)
        self.sessions = SessionStore(pool, session_ttl_s)
        self.scheduler = Scheduler(pool, self.sessions, limits, backend.traits)
        self.beginnings = Beginnings(
            prompts, self._book, self.sessions, self.scheduler, tokenising, constrain, self._prepared
        )
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
        self._replies = Replies(prompts.vocabulary.bytes_of, eos_ids, self._endings, self._meters)
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
        if submit.deadline_s is not None:
            self._wake.set()  # it may sleep for longer than that
        return entry.request.key

    def cancel(self, key: int) -> None:
        """Ends the request within a step. Unknown and ended keys are fine."""
        request = self._book.get(key)
        if request is not None:
            self._command(partial(self._endings.cancel, request))

    def truncate(self, session: str, heard_tokens: int, salt: str = "") -> None:
        """Cut the session's last reply to what was heard of it; a reply that is being made now ends there."""
        key = (salt, session)
        self._command(partial(self._truncate, key, heard_tokens, self._book.active(key)))

    def end_session(self, session: str, salt: str = "") -> None:
        """Forget a session, and end what is open of it."""
        key = (salt, session)
        self._command(partial(self._end_session, key, self._book.of_session(key)))

    def figures(self, memory_mb: float = 0.0) -> Figures:
        began, running = self._step_began_s, len(self.scheduler.running)
        return self._meters.figures(
            self._pool,
            running=running,
            waiting=max(0, len(self._book) - running),
            sessions=len(self.sessions),
            session_evictions=self.sessions.evictions,
            preemptions=self.scheduler.preemptions,
            step_age_s=self._clock() - began if began is not None else 0.0,
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
                deadline_s = self._book.next_deadline_s
                self._wake.wait(None if deadline_s is None else max(0.0, deadline_s - self._clock()))
        self._drain()
        for request in self._book.everybody():
            self._endings.cancel(request)
        self._after_step()

    def step(self) -> bool:
        """One step; False if there was nothing to do."""
        acted = self._drain()
        now = self._clock()
        for request in self._book.overdue(now):
            self._endings.time_out(request)
            acted = True
        chunks = self.scheduler.plan(now)
        if chunks:
            self._step_began_s = now
            try:
                self._run(chunks, now)
            finally:
                self._step_began_s = None
        if chunks or acted:
            self._after_step()
        return bool(chunks) or acted

    def _safe_step(self) -> bool:
        try:
            return self.step()
        except Exception as error:
            # A fault of our own books: nothing in the pool can be trusted, but the next request can start anew.
            log_event(log, "llm.engine_reset", level=logging.ERROR, error=error)
            self._reset()
            return True

    def _run(self, chunks: list[Chunk], began_s: float) -> None:
        try:
            draws = self._backend.step(chunks)
        except Exception as error:
            self._isolate(chunks, error)
            return
        self._advance(chunks, draws)
        took_ms = (self._clock() - began_s) * 1000.0
        self.scheduler.cost.observe(*step_size(chunks), took_ms)
        self._meters.stepped(took_ms, len(chunks))

    def _isolate(self, chunks: list[Chunk], error: Exception) -> None:
        """A step failed: run its sequences one by one, so that only those that fail alone are lost."""
        log_event(log, "llm.step_failed", level=logging.WARNING, sequences=len(chunks), why=repr(error))
        for chunk in chunks:
            request = self._by_sequence[chunk.sequence.key]
            if len(chunks) > 1:
                try:
                    draws = self._backend.step([chunk])
                except Exception as own_error:
                    self._endings.fail(request, StageError(f"the model failed on this request: {own_error}"))
                else:
                    self._advance([chunk], draws)
            else:
                self._endings.fail(request, StageError(f"the model failed on this request: {error}"))
        self.scheduler.check()

    def _advance(self, chunks: SequenceOf[Chunk], draws: list[Draw]) -> None:
        now = self._clock()
        sampling = [chunk for chunk in chunks if chunk.samples]
        self._meters.planned(chunks)
        self.scheduler.complete(chunks)
        for chunk, draw in zip(sampling, draws, strict=True):
            if draw.fault:
                self.scheduler.distrust(chunk.sequence)
            self._replies.take(self._by_sequence[chunk.sequence.key], draw, now)
        if len(sampling) < len(chunks):
            for chunk in chunks:
                if chunk.sequence.only_prefill and not chunk.sequence.pending:
                    self._endings.finish(self._by_sequence[chunk.sequence.key], "length")
        self._replies.give_signs_of_life(self._by_sequence.values(), now)

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
            return  # ended while it was tokenised
        if request.is_draft and not self._backend.traits.can_reuse:
            self._endings.finish(request, "length")  # nothing that it computes could be taken up
            return
        self._by_sequence[request.key] = request
        self.scheduler.add(self.beginnings.sequence(request, prepared))

    def _truncate(self, session: SessionKey, heard_tokens: int, request: Request | None) -> None:
        if request is not None and request in self._book and not request.is_draft:
            self._endings.cancel(request, heard_tokens)
        else:
            self.sessions.truncate(session, heard_tokens)

    def _end_session(self, session: SessionKey, requests: list[Request]) -> None:
        for request in requests:
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
        """In the time that it takes to answer half of those who wait, there will be room again."""
        limits = self.scheduler.limits
        waiting = self._most_open - limits.max_running
        retry_s = self._meters.reply_s * waiting / limits.max_running / 2.0
        return Overloaded(
            f"{self._most_open} replies are running or waiting (llm.max_running + llm.max_waiting): try again later",
            retry_after_s=min(_LONGEST_RETRY_S, max(_SHORTEST_RETRY_S, retry_s)),
        )
