"""The engine: one thread that owns model and KV pool, and repeats one step for everybody.

A step: take commands (cancels free their blocks here), plan, run, draw, emit. Every request gets
exactly one terminal event, and nothing that a request does ends the loop.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Protocol

from app.engine.blocks import BlockPool
from app.engine.ledger import Ledger
from app.engine.messages import Counts, Delta, Done, Failed, Figures, ReplyEvent, Submit
from app.engine.prompt import PromptBuilder
from app.engine.scheduler import Limits, Scheduler, step_size
from app.engine.sequence import Chunk, Draw, RunnerTraits, Sequence
from app.engine.sessions import SessionStore
from app.engine.text import ReplyText
from app.errors import InvalidRequest, Overloaded, ParleyError, StageError

log = logging.getLogger(__name__)

Sink = Callable[[ReplyEvent], None]
"""Takes a request's events, on the engine's thread; must return at once and never raise."""


class StepBackend(Protocol):
    """The model as the engine sees it (see runner.Backend)."""

    traits: RunnerTraits

    def step(self, chunks: SequenceOf[Chunk]) -> list[Draw]:
        """Run the chunks; a draw for each chunk that samples, in order."""
        ...

    def forget(self, key: int) -> None: ...


@dataclass(slots=True, eq=False)
class _Request:
    key: int
    submit: Submit
    sink: Sink
    submitted_s: float
    sequence: Sequence | None = None
    ledger: Ledger = field(default_factory=Ledger)
    text: ReplyText | None = None


@dataclass(slots=True)
class _Totals:
    steps: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    cached_tokens: int = 0
    cancelled: int = 0
    failed: int = 0
    finished: int = 0
    last_step_ms: float = 0.0


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
        self._prompts = prompts
        self._pool = pool
        self._eos_ids = eos_ids
        self._most_open = limits.max_running + max_waiting
        self._tokenising = tokenising
        self._after_step = after_step
        self._clock = clock
        self.sessions = SessionStore(pool)
        self.scheduler = Scheduler(pool, self.sessions, limits, backend.traits)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._commands: deque[Callable[[], None]] = deque()
        self._open: dict[int, _Request] = {}
        self._active: dict[str, _Request] = {}
        self._parked: dict[str, _Request] = {}
        self._by_sequence: dict[int, _Request] = {}
        self._next_key = 0
        self._stopping = False
        self._step_began_s: float | None = None
        self._totals = _Totals()
        self._reply_s = 1.0

    # --- from any thread -----------------------------------------------------------------

    def submit(self, submit: Submit, sink: Sink) -> int:
        """Take a request; returns the key to cancel it by. Whatever is wrong with it comes as its Failed event."""
        with self._lock:
            self._next_key += 1
            request = _Request(self._next_key, submit, sink, self._clock())
            full = len(self._open) >= self._most_open
            self._open[request.key] = request
            older = None if full else self._take_session(request)
        if full:
            self._command(lambda: self._fail(request, self._overloaded()))
        elif older is not None:
            self._command(lambda: self._cancel(older))
        else:
            self._prepare_soon(request)
        return request.key

    def cancel(self, key: int) -> None:
        """Ends the request within a step. Unknown and ended keys are fine."""
        with self._lock:
            request = self._open.get(key)
        if request is not None:
            self._command(lambda: self._cancel(request))

    def end_session(self, session: str) -> None:
        self._command(lambda: self._end_session(session))

    def figures(self, memory_mb: float = 0.0) -> Figures:
        began = self._step_began_s
        totals, scheduler, pool = self._totals, self.scheduler, self._pool
        return Figures(
            running=len(scheduler.running),
            waiting=len(self._open) - len(scheduler.running),
            sessions=len(self.sessions),
            blocks_total=pool.total,
            blocks_free=pool.free,
            blocks_cached=pool.cached,
            blocks_held=pool.held,
            steps=totals.steps,
            prefill_tokens=totals.prefill_tokens,
            decode_tokens=totals.decode_tokens,
            cached_tokens=totals.cached_tokens,
            preemptions=scheduler.preemptions,
            evictions=pool.evictions,
            cancelled=totals.cancelled,
            failed=totals.failed,
            finished=totals.finished,
            step_age_s=self._clock() - began if began is not None else 0.0,
            last_step_ms=totals.last_step_ms,
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
        for request in list(self._open.values()):
            self._cancel(request)
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
        self._totals.last_step_ms = took_ms

    def _isolate(self, chunks: list[Chunk], error: Exception) -> None:
        """A step failed: run its sequences one by one, so that only those that fail alone are lost."""
        log.warning("llm.step_failed", extra={"sequences": len(chunks), "error": repr(error)})
        for chunk in chunks:
            request = self._by_sequence[chunk.sequence.key]
            if len(chunks) > 1 and self._backend.traits.can_reuse:
                try:
                    draws = self._backend.step([chunk])
                except Exception as own_error:
                    self._fail(request, StageError(f"the model failed on this request: {own_error}"))
                else:
                    self._advance([chunk], draws)
            else:
                self._fail(request, StageError(f"the model failed on this request: {error}"))

    def _advance(self, chunks: SequenceOf[Chunk], draws: list[Draw]) -> None:
        sampling = [chunk for chunk in chunks if chunk.samples]
        prefilled = sum(chunk.count for chunk in chunks if chunk.count > 1 or not chunk.samples)
        self._totals.steps += 1
        self._totals.prefill_tokens += prefilled
        self._totals.decode_tokens += sum(chunk.count for chunk in chunks) - prefilled
        self.scheduler.complete(chunks)
        for chunk, draw in zip(sampling, draws, strict=True):
            self._take_token(self._by_sequence[chunk.sequence.key], chunk.sequence, draw.token)

    def _take_token(self, request: _Request, sequence: Sequence, token: int) -> None:
        if not sequence.first_token_s:
            sequence.first_token_s = self._clock()
        spec = sequence.sampling
        if token in self._eos_ids and not spec.ignore_eos:
            self._finish(request, "stop")
            return
        assert request.text is not None
        sequence.ids.append(token)
        shown = request.text.push(token)
        if shown:
            request.sink(Delta(request.submit.id, shown))
        if request.text.stopped:
            self._finish(request, "stop")
        elif sequence.reply_tokens >= sequence.max_tokens:
            self._finish(request, "length")

    # --- beginnings ----------------------------------------------------------------------

    def _take_session(self, request: _Request) -> _Request | None:
        """Note the request as its session's; returns the older one that must end first. Holds the lock."""
        session = request.submit.session
        if session is None:
            return None
        older = self._active.get(session)
        if older is None:
            self._active[session] = request
            return None
        replaced = self._parked.get(session)
        self._parked[session] = request
        if replaced is not None:
            self._commands.append(lambda: self._end_parked(replaced))
        return older

    def _prepare_soon(self, request: _Request) -> None:
        if self._tokenising is None:
            self._prepare(request)
            return
        try:
            self._tokenising.submit(self._prepare, request)
        except RuntimeError:  # the pool is shut: the worker is going away
            self._command(lambda: self._cancel(request))

    def _prepare(self, request: _Request) -> None:
        """Tokenise what the session does not know yet. Its ledger cannot change meanwhile: one request per session."""
        if request.key not in self._open:
            return
        submit = request.submit
        try:
            _check_sampling(submit)
            ledger, stops = self._prompts.build(submit.messages, self.sessions.ledger(submit.session))
            room = max(1, self.scheduler.limits.context_tokens - len(ledger.ids))
            max_tokens = submit.sampling.max_tokens or room
            self.scheduler.check_fits(len(ledger.ids), max_tokens)
        except ParleyError as error:
            refusal = error
            self._command(lambda: self._fail(request, refusal))
            return
        except Exception as error:
            log.exception("llm.prepare_failed")
            broken = StageError(f"the prompt could not be prepared: {error}")
            self._command(lambda: self._fail(request, broken))
            return
        self._command(lambda: self._admit(request, ledger, stops, max_tokens))

    def _admit(self, request: _Request, ledger: Ledger, stops: tuple[str, ...], max_tokens: int) -> None:
        if request.key not in self._open:
            return  # cancelled while it was tokenised
        submit = request.submit
        seed = submit.sampling.seed if submit.sampling.seed is not None else secrets.randbits(63)
        salt = submit.salt.encode()[:64]
        request.ledger = ledger
        request.text = ReplyText(
            self._prompts.vocabulary.decode,
            (*submit.sampling.stop, *stops),
            guard_loops=not submit.sampling.ignore_eos,
        )
        request.sequence = Sequence(
            key=request.key,
            ids=list(ledger.ids),
            prompt_tokens=len(ledger.ids),
            sampling=submit.sampling,
            max_tokens=max_tokens,
            seed=seed,
            arrived_s=request.submitted_s,
            salt=salt,
            session=submit.session,
            last_digest=salt,
        )
        self._by_sequence[request.key] = request
        self.scheduler.add(request.sequence)

    # --- endings: each request leaves through exactly one of these -----------------------

    def _finish(self, request: _Request, reason: str) -> None:
        rest = request.text.finish() if request.text is not None else ""
        if rest:
            request.sink(Delta(request.submit.id, rest))
        self._totals.finished += 1
        now = self._clock()
        self._reply_s += 0.1 * (now - request.submitted_s - self._reply_s)
        self._leave(request, keep=True)
        request.sink(_done(request, reason, now))

    def _cancel(self, request: _Request) -> None:
        if request.key not in self._open:
            return
        self._totals.cancelled += 1
        self._leave(request, keep=True)
        request.sink(_done(request, "cancelled", self._clock()))

    def _fail(self, request: _Request, error: ParleyError) -> None:
        if request.key not in self._open:
            return
        self._totals.failed += 1
        self._leave(request, keep=False)
        retry_after_s = error.retry_after_s if isinstance(error, Overloaded) else 0.0
        request.sink(Failed(request.submit.id, error.code, str(error), retry_after_s))

    def _leave(self, request: _Request, *, keep: bool) -> None:
        """Out of every book; the blocks go to the session if they can be trusted."""
        sequence = request.sequence
        if sequence is not None:
            self.scheduler.remove(sequence)
            self._totals.cached_tokens += sequence.cached_tokens or 0
            took_over = bool(sequence.blocks) or not self._backend.traits.can_reuse
            if keep and took_over and request.text is not None:
                ledger = request.ledger.with_reply(sequence.reply, request.text.ends, request.text.text)
                self.sessions.keep(sequence, ledger, can_reuse=self._backend.traits.can_reuse)
            else:
                self.sessions.drop(sequence)
            self._backend.forget(request.key)
        self._by_sequence.pop(request.key, None)
        follower: _Request | None = None
        with self._lock:
            self._open.pop(request.key, None)
            session = request.submit.session
            if session is not None:
                if self._parked.get(session) is request:
                    del self._parked[session]
                elif self._active.get(session) is request:
                    follower = self._parked.pop(session, None)
                    if follower is None:
                        del self._active[session]
                    else:
                        self._active[session] = follower
        if follower is not None:
            self._prepare_soon(follower)

    def _end_parked(self, request: _Request) -> None:
        """A newer request of the session took the place of one that never began."""
        self._cancel(request)

    def _end_session(self, session: str) -> None:
        with self._lock:
            ending = [entry for entry in (self._parked.get(session), self._active.get(session)) if entry is not None]
        for request in ending:
            self._cancel(request)
        self.sessions.end(session)

    def _reset(self) -> None:
        for request in list(self._open.values()):
            self._totals.failed += 1
            request.sink(Failed(request.submit.id, StageError.code, "the engine had to start afresh"))
            self._backend.forget(request.key)
        with self._lock:
            self._open.clear()
            self._active.clear()
            self._parked.clear()
        self._by_sequence.clear()
        self._pool = BlockPool(self._pool.total, self._pool.block_tokens)
        self.sessions = SessionStore(self._pool)
        self.scheduler = Scheduler(
            self._pool, self.sessions, self.scheduler.limits, self._backend.traits, self.scheduler.cost
        )
        self._after_step()

    # --- helpers -------------------------------------------------------------------------

    def _command(self, action: Callable[[], None]) -> None:
        self._commands.append(action)
        self._wake.set()

    def _drain(self) -> bool:
        acted = False
        while self._commands:
            self._commands.popleft()()
            acted = True
        return acted

    def _overloaded(self) -> Overloaded:
        retry_s = max(0.5, self._reply_s)
        return Overloaded(
            f"{self._most_open} replies are running or waiting (llm.max_running + llm.max_waiting): try again later",
            retry_after_s=retry_s,
        )


def _check_sampling(submit: Submit) -> None:
    spec = submit.sampling
    if spec.max_tokens is not None and spec.max_tokens < 1:
        raise InvalidRequest(f"max_tokens is {spec.max_tokens}: it must be at least 1")
    if spec.temperature < 0 or not 0 < spec.top_p <= 1 or spec.top_k < 0 or spec.repetition_penalty <= 0:
        raise InvalidRequest("sampling is out of range: temperature >= 0, 0 < top_p <= 1, top_k >= 0, penalty > 0")


def _done(request: _Request, reason: str, now_s: float) -> Done:
    sequence = request.sequence
    if sequence is None:
        return Done(request.submit.id, reason, Counts(0, 0, 0), (now_s - request.submitted_s) * 1000.0, 0.0, 0.0)  # type: ignore[arg-type]
    started = sequence.started_s or now_s
    first = sequence.first_token_s or now_s
    return Done(
        id=request.submit.id,
        reason=reason,  # type: ignore[arg-type]
        counts=Counts(sequence.prompt_tokens, sequence.cached_tokens or 0, sequence.reply_tokens),
        queue_ms=(started - request.submitted_s) * 1000.0,
        prefill_ms=(first - started) * 1000.0,
        decode_ms=(now_s - first) * 1000.0,
    )
