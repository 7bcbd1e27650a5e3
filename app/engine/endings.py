"""How a request ends: through exactly one of these doors, with one terminal event, and out of every book."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from app.engine.messages import Counts, Delta, Done, Failed
from app.engine.meters import Meters
from app.engine.requests import Request, RequestBook
from app.engine.scheduler import Scheduler
from app.engine.sequence import RunnerTraits
from app.engine.sessions import SessionStore
from app.errors import InvalidRequest, Overloaded, ParleyError, StageTimeout


class Endings:
    """Only the engine's thread calls it. Ending a request that has ended already does nothing."""

    def __init__(
        self,
        book: RequestBook,
        scheduler: Scheduler,
        sessions: SessionStore,
        meters: Meters,
        traits: RunnerTraits,
        *,
        forget: Callable[[int], None],
        begin: Callable[[Request], None],
        clock: Callable[[], float],
    ) -> None:
        """``forget`` drops what the model keeps of a key; ``begin`` starts a request that waited for its session."""
        self._book = book
        self._scheduler = scheduler
        self._sessions = sessions
        self._meters = meters
        self._can_reuse = traits.can_reuse
        self._forget = forget
        self._begin = begin
        self._clock = clock

    def finish(self, request: Request, reason: Literal["stop", "length"]) -> None:
        if request not in self._book:
            return
        rest = request.text.finish() if request.text is not None else ""
        if rest:
            request.sink(Delta(request.submit.id, rest, request.untold))
        now = self._clock()
        if not request.is_draft:
            self._meters.finished(request.sequence, now)
        done = _done(request, reason, now)
        self._leave(request, now, keep=True)
        request.sink(done)

    def cancel(self, request: Request, heard_tokens: int | None = None) -> None:
        """With ``heard_tokens``, that is also all of the reply that its session keeps."""
        if request not in self._book:
            return
        self._meters.cancelled += 1
        now = self._clock()
        done = _done(request, "cancelled", now)
        self._leave(request, now, keep=True, heard_tokens=heard_tokens)
        request.sink(done)

    def fail(self, request: Request, error: ParleyError) -> None:
        if request not in self._book:
            return
        self._meters.failed += 1
        if request.sequence is None:
            self._meters.refused += 1
        self._leave(request, self._clock(), keep=False)
        retry_after_s = error.retry_after_s if isinstance(error, Overloaded) else 0.0
        param = error.param if isinstance(error, InvalidRequest) else ""
        request.sink(Failed(request.submit.id, error.code, str(error), retry_after_s, param))

    def time_out(self, request: Request) -> None:
        """What has been said stays said, and its session keeps it."""
        if request not in self._book:
            return
        self._meters.failed += 1
        self._meters.timed_out += 1
        self._leave(request, self._clock(), keep=True)
        message = f"the reply was not finished within its deadline of {request.submit.deadline_s:.3g} s"
        request.sink(Failed(request.submit.id, StageTimeout.code, message))

    def _leave(self, request: Request, now_s: float, *, keep: bool, heard_tokens: int | None = None) -> None:
        """Out of every book; the blocks go to the session if they can be trusted."""
        sequence = request.sequence
        if sequence is not None:
            self._scheduler.remove(sequence)
            self._meters.ended(sequence)
            took_over = bool(sequence.blocks) or not self._can_reuse
            if keep and took_over and request.text is not None:
                ledger = request.ledger
                if not request.is_draft:
                    ledger = ledger.with_reply(sequence.reply, request.text.ends, request.text.text)
                self._sessions.keep(sequence, ledger, now_s, can_reuse=self._can_reuse)
            else:
                self._sessions.drop(sequence)
            self._forget(request.key)
        if heard_tokens is not None and request.session is not None:
            self._sessions.truncate(request.session, heard_tokens)
        follower = self._book.leave(request)
        if follower is not None:
            self._begin(follower)


def _done(request: Request, reason: Literal["stop", "length", "cancelled"], now_s: float) -> Done:
    sequence = request.sequence
    if sequence is None:
        return Done(request.submit.id, reason, Counts(0, 0, 0), (now_s - request.submitted_s) * 1000.0, 0.0, 0.0)
    started = sequence.started_s or now_s
    first = sequence.first_token_s or now_s
    return Done(
        id=request.submit.id,
        reason=reason,
        counts=Counts(sequence.prompt_tokens, sequence.cached_tokens or 0, sequence.reply_tokens),
        queue_ms=(started - request.submitted_s) * 1000.0,
        prefill_ms=(first - started) * 1000.0,
        decode_ms=(now_s - first) * 1000.0,
    )
