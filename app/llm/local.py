"""The language model in a worker process of its own: started, watched, restarted, and spoken to from here."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from app.config.settings import LlmSettings, RuntimeSettings
from app.engine.messages import (
    Cancel,
    Delta,
    Done,
    EndSession,
    Failed,
    Figures,
    Ready,
    ReplyEvent,
    Truncate,
)
from app.engine.messages import TokenLogprob as WireLogprob
from app.errors import (
    ModelError,
    ParleyError,
    StageError,
    StageTimeout,
    StageUnavailable,
)
from app.llm.base import (
    Finished,
    GenerateRequest,
    LlmEvent,
    TextDelta,
    TokenLogprob,
    Usage,
)
from app.llm.figures import FigureTotals
from app.llm.process import WorkerProcess
from app.llm.tool_calls import with_tool_calls
from app.llm.wire import error_of, finished_of, submission
from app.telemetry.log import log_event
from app.telemetry.stage import StageReport

log = logging.getLogger(__name__)

_FIRST_BACKOFF_S = 0.2
_LONGEST_BACKOFF_S = 10.0
_STEADY_S = 30.0
"""A worker that lived this long starts the back-off anew when it dies."""

_DEADLINE_GRACE_S = 1.0
"""The worker ends a reply at its deadline, keeps what was said, and counts it; this side only steps in if it does not."""

_FIRST_START_S = 5.0
"""What a start is thought to take before one was seen."""
_SHORTEST_WAIT_S = 1.0

_POLL_S = 0.05
"""Between looks for a worker that is being started again."""

MAX_PENDING_CHARS = 256 * 1024
"""Text that a reader may leave unread; more means that it is not reading, and the reply is cancelled."""

_LOGPROB_CHARS = 32
"""What an entry of log-probabilities counts as."""


class _Reply:
    """What the worker sent of one reply and nobody has read yet. Pieces of text join, so it stays small."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.chars = 0
        self.tokens = 0
        self.logprobs: list[WireLogprob] = []
        self.end: Done | ParleyError | None = None
        self.changed = asyncio.Event()

    def take(self, event: ReplyEvent) -> None:
        match event:
            case Delta():
                if event.text:
                    self.text.append(event.text)
                self.chars += len(event.text)
                self.chars += _LOGPROB_CHARS * sum(1 + len(entry.top) for entry in event.logprobs)
                self.tokens += event.tokens
                self.logprobs += event.logprobs
            case Done():
                self.end = event
            case Failed():
                self.end = error_of(event)
        self.changed.set()

    def fail(self, error: ParleyError) -> None:
        if self.end is None:
            self.end = error
        self.changed.set()

    @property
    def has_news(self) -> bool:
        """Whether there is something to hand on; a count of tokens alone waits for its text."""
        return bool(self.text or self.logprobs or self.end is not None)

    def drain(self) -> TextDelta | None:
        if not self.text and not self.logprobs:
            return None
        logprobs = tuple(TokenLogprob(entry.token, entry.raw, entry.logprob, entry.top) for entry in self.logprobs)
        delta = TextDelta("".join(self.text), self.tokens, logprobs)
        self.text.clear()
        self.logprobs.clear()
        self.chars = self.tokens = 0
        return delta


class LocalLanguageModel:
    """Client and supervisor of one worker (app.engine.worker).

    When the worker dies, replies in flight raise StageUnavailable at once and it is started again;
    a request meanwhile waits for it, up to ``first_token_timeout_s``. Sessions need no care: each
    request carries its conversation, from which a new worker rebuilds what the old one knew.
    """

    def __init__(self, settings: LlmSettings, runtime: RuntimeSettings, model_folder: Path) -> None:
        self._settings = settings
        self._runtime = runtime
        self._model_folder = model_folder
        self._worker: WorkerProcess | None = None
        self._ready: asyncio.Future[Ready] | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._replies: dict[int, _Reply] = {}
        self._next_id = 0
        self._closed = False
        self._backoff_s = _FIRST_BACKOFF_S
        self._start_s = _FIRST_START_S
        """How long the last start took."""
        self._ready_at_s = 0.0
        """When a worker should be up again, while none is."""
        self._context_tokens = settings.context_tokens
        self._tool_format = ""
        self.totals = FigureTotals()
        """What all workers so far have counted."""

    async def load(self) -> StageReport:
        """Start the worker; returns once it is warm. Raises ModelError if it cannot load the model."""
        if self._supervisor is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._supervisor = asyncio.create_task(self._supervise(), name="llm-supervisor")
        assert self._ready is not None
        ready = await asyncio.shield(self._ready)
        self._context_tokens = min(ready.context_tokens, ready.pool_tokens)
        self._tool_format = ready.tool_format
        self._tell_cut(ready)
        return StageReport(
            stage="LLM",
            detail=f"local {self._settings.model}, {ready.dtype} on {ready.device}, runner {ready.runner}, "
            f"context {self._context_tokens} tokens, KV pool {ready.pool_tokens} tokens",
            load_s=ready.load_s,
            warm_up_s=ready.warm_up_s,
            memory_mb=ready.memory_mb,
        )

    def _tell_cut(self, ready: Ready) -> None:
        """Log whose doing it is that a conversation may not have the ``llm.context_tokens`` it was promised."""
        wanted = self._settings.context_tokens
        if self._context_tokens >= wanted:
            return
        if ready.pool_tokens < ready.context_tokens:
            why = f"the KV pool has room for no more: raise llm.kv_cache_mb ({self._settings.kv_cache_mb})"
        else:
            why = "the model's own limit"
        cut = self._context_tokens
        log_event(
            log, "llm.context_cut", level=logging.WARNING, key="llm.context_tokens", asked=wanted, given=cut, why=why
        )

    @property
    def context_tokens(self) -> int:
        """Of the model or the KV pool, whichever is smaller."""
        return self._context_tokens

    def generate(self, request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        events = self._events(request, only_prefill=False)
        return with_tool_calls(events, self._tool_format, request.tools) if request.tools else events

    async def extend(self, request: GenerateRequest) -> Usage:
        """Prefill ``messages`` into the session; cancelling it keeps what has been computed by then."""
        usage = Usage(0, 0, 0)
        async with aclosing(self._events(request, only_prefill=True)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    usage = event.usage
        return usage

    async def _events(self, request: GenerateRequest, *, only_prefill: bool) -> AsyncGenerator[LlmEvent, None]:
        patience_s = request.deadline_s if request.deadline_s is not None else self._settings.first_token_timeout_s
        # One moment for everything before the first token: waiting for a worker, queueing, prefill.
        deadline = time.monotonic() + patience_s
        worker = await self._worker_by(deadline)
        self._next_id += 1
        number = self._next_id
        reply = _Reply()
        self._replies[number] = reply
        try:
            left_s = deadline - time.monotonic()
            worker.send(submission(number, request, left_s, only_prefill=only_prefill))
            wait_s = left_s if request.deadline_s is None else left_s + _DEADLINE_GRACE_S
            while True:
                await self._next_change(reply, wait_s, request.deadline_s)
                wait_s = self._settings.stall_timeout_s
                if request.deadline_s is not None:
                    wait_s = deadline + _DEADLINE_GRACE_S - time.monotonic()
                delta = reply.drain()
                if delta is not None:
                    yield delta
                    continue
                if isinstance(reply.end, Done):
                    yield finished_of(reply.end)
                    return
                if reply.end is not None:
                    raise reply.end
        finally:
            del self._replies[number]
            if reply.end is None:
                worker.send(Cancel(number))

    async def end_session(self, session_id: str, tenant: str = "") -> None:
        """``tenant`` as in the session's requests."""
        if self._worker is not None:
            self._worker.send(EndSession(session_id, tenant))

    async def truncate(self, session_id: str, heard_tokens: int, tenant: str = "") -> None:
        """Cut the session's last reply to what was heard of it, in the worker's ledger and KV cache."""
        if self._worker is not None:
            self._worker.send(Truncate(session_id, heard_tokens, tenant))

    async def stats(self) -> Figures:
        """How the engine stands now. Raises StageUnavailable while there is no worker, StageTimeout if it is slow."""
        if self._worker is None:
            raise StageUnavailable("the language model worker is not running")
        return await self._worker.figures(timeout_s=self._settings.stall_timeout_s)

    @property
    def ready(self) -> bool:
        """Whether a worker is up and warm."""
        return self._worker is not None

    @property
    def ready_in_s(self) -> float:
        """When a worker should be up again, judged by how long the last one took; 0 while one is."""
        if self._worker is not None:
            return 0.0
        return max(_SHORTEST_WAIT_S, self._ready_at_s - time.monotonic())

    @property
    def process_id(self) -> int | None:
        """Of the worker that is running now."""
        return self._worker.process_id if self._worker is not None else None

    async def close(self) -> None:
        """End the worker and everything in flight. Safe to call twice."""
        self._closed = True
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.cancel()
            await asyncio.gather(supervisor, return_exceptions=True)
        if self._ready is not None and not self._ready.done():
            self._not_started(StageUnavailable("the language model was closed"))
        self._fail_all("the language model was closed")

    # --- supervision ---------------------------------------------------------------------

    async def _supervise(self) -> None:
        while True:
            started = time.monotonic()
            why = await self._run_one()
            if time.monotonic() - started > _STEADY_S:
                self._backoff_s = _FIRST_BACKOFF_S
            log_event(log, "llm.worker_down", level=logging.WARNING, why=why, restart_in_s=self._backoff_s)
            self._expect_worker()
            await asyncio.sleep(self._backoff_s)
            self._backoff_s = min(_LONGEST_BACKOFF_S, self._backoff_s * 2)

    def _expect_worker(self) -> None:
        self._ready_at_s = time.monotonic() + self._backoff_s + self._start_s

    async def _run_one(self) -> str:
        """One worker from start to end; returns why it ended."""
        self.totals.begin_run()
        try:
            worker = WorkerProcess(
                self._take, hang_s=max(10.0, 3 * self._settings.stall_timeout_s), on_figures=self.totals.take
            )
        except OSError as error:  # a full or unwritable temporary folder
            return self._not_started(StageUnavailable(f"its socket folder cannot be made: {error}"))
        try:
            began = time.monotonic()
            state = await worker.start(self._arguments(), self._environment())
            self._start_s = time.monotonic() - began
            self._worker = worker
            assert self._ready is not None
            self._ready.set_result(state)
            why = await worker.wait()
            self._gone_down(why)  # before its end is waited for: nobody should be given a worker that is no more
            return why
        except ParleyError as error:
            return self._not_started(error)
        except (OSError, EOFError) as error:
            return self._not_started(StageUnavailable(f"the language model worker could not start: {error!r}"))
        finally:
            self._worker = None
            await worker.stop()

    def _gone_down(self, why: str) -> None:
        self._worker = None
        self._expect_worker()
        self._ready = asyncio.get_running_loop().create_future()
        self._fail_all(f"the language model worker went down ({why}) and is being restarted")

    def _not_started(self, error: ParleyError) -> str:
        """Whoever waits for this start is told that it failed; the next one is tried all the same."""
        assert self._ready is not None
        failed, self._ready = self._ready, asyncio.get_running_loop().create_future()
        if not failed.done():
            failed.set_exception(error)
            failed.exception()
        self._fail_all(str(error))
        return str(error)

    def _arguments(self) -> list[str]:
        settings = self._settings
        options: dict[str, object] = {
            "model": self._model_folder,
            "device": settings.device,
            "quantization": settings.quantization,
            "runner": settings.runner,
            "kv-cache-mb": settings.kv_cache_mb,
            "context-tokens": settings.context_tokens,
            "max-running": settings.max_running,
            "max-waiting": settings.max_waiting,
            "session-ttl-s": settings.session_ttl_s,
            "threads": self._threads,
            "nice": self._runtime.llm_nice,
            "log-level": self._runtime.log_level,
        }
        return [part for name, value in options.items() for part in (f"--{name}", str(value))]

    def _environment(self) -> dict[str, str]:
        return {
            "OMP_NUM_THREADS": str(self._threads),
            # Threads that wait by spinning keep a core from the one they wait for as soon as anything else runs.
            "OMP_WAIT_POLICY": "PASSIVE",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",  # the folder is local: no look at a hub may hold up the start
        }

    @property
    def _threads(self) -> int:
        return self._runtime.llm_threads or max(1, min(8, os.cpu_count() or 1))

    def _take(self, event: ReplyEvent) -> None:
        reply = self._replies.get(event.id)
        if reply is None:
            return  # cancelled here before this arrived
        reply.take(event)
        if reply.chars > MAX_PENDING_CHARS and reply.end is None:
            reply.fail(StageError("a reply was not read and has been cancelled"))
            if self._worker is not None:
                self._worker.send(Cancel(event.id))

    def _fail_all(self, message: str) -> None:
        for reply in self._replies.values():
            reply.fail(StageUnavailable(message, retry_after_s=self.ready_in_s))

    async def _worker_by(self, deadline: float) -> WorkerProcess:
        """The worker, waited for through as many failed starts as there is time for."""
        why = "it is being restarted"
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                while True:
                    if self._closed or self._ready is None:
                        raise StageUnavailable("the language model is not loaded, or was closed")
                    if self._worker is not None:
                        return self._worker
                    try:
                        await asyncio.shield(self._ready)
                    except ModelError as error:  # a model that cannot be loaded will not load the next time either
                        raise StageUnavailable(f"the language model worker cannot start: {error}") from error
                    except ParleyError as error:
                        why = str(error)
                        await asyncio.sleep(_POLL_S)
        except TimeoutError:
            told = f"no language model worker for now ({why}): try again in a moment"
            raise StageUnavailable(told, retry_after_s=self.ready_in_s) from None

    async def _next_change(self, reply: _Reply, wait_s: float, deadline_s: float | None) -> None:
        if reply.has_news:
            return
        reply.changed.clear()
        try:
            async with asyncio.timeout(wait_s):
                await reply.changed.wait()
        except TimeoutError:
            if deadline_s is not None:
                raise StageTimeout(f"the reply was not finished within its deadline of {deadline_s:.1f} s") from None
            raise StageTimeout(
                f"the language model sent nothing for {wait_s:.1f} s (llm.first_token_timeout_s, llm.stall_timeout_s)"
            ) from None
