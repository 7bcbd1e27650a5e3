"""How a request begins: checked, tokenised away from the engine's thread, and made into a sequence."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeAlias

from app.engine.ledger import Ledger
from app.engine.messages import Submit
from app.engine.prompt import PromptBuilder
from app.engine.requests import Request, RequestBook
from app.engine.scheduler import Scheduler
from app.engine.sequence import Sequence
from app.engine.sessions import SessionStore
from app.engine.text import ReplyText
from app.errors import InvalidRequest, ParleyError, StageError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request as far as it can be made without the engine's thread."""

    ledger: Ledger
    stops: tuple[str, ...]
    max_tokens: int


Outcome: TypeAlias = Prepared | ParleyError | None
"""None: nobody is left to prepare it."""


class Beginnings:
    """Prepares requests; the outcome of each is reported once, from whichever thread prepared it."""

    def __init__(
        self,
        prompts: PromptBuilder,
        book: RequestBook,
        sessions: SessionStore,
        scheduler: Scheduler,
        tokenising: Executor | None,
        report: Callable[[Request, Outcome], None],
    ) -> None:
        self._prompts = prompts
        self._book = book
        self._sessions = sessions
        self._scheduler = scheduler
        self._report = report
        self.tokenising = tokenising

    def prepare_soon(self, request: Request) -> None:
        if self.tokenising is None:
            self._prepare(request)
            return
        try:
            self.tokenising.submit(self._prepare, request)
        except RuntimeError:  # the pool is shut: the worker is going away
            self._report(request, None)

    def sequence(self, request: Request, prepared: Prepared) -> Sequence:
        """The request as the scheduler sees it. On the engine's thread."""
        submit = request.submit
        request.ledger = prepared.ledger
        request.text = ReplyText(
            self._prompts.vocabulary.decode,
            (*submit.sampling.stop, *prepared.stops),
            guard_loops=not submit.sampling.ignore_eos,
        )
        salt = submit.salt.encode()[:64]
        request.sequence = Sequence(
            key=request.key,
            ids=list(prepared.ledger.ids),
            prompt_tokens=len(prepared.ledger.ids),
            sampling=submit.sampling,
            max_tokens=prepared.max_tokens,
            seed=submit.sampling.seed if submit.sampling.seed is not None else secrets.randbits(63),
            arrived_s=request.submitted_s,
            salt=salt,
            session=submit.session,
            last_digest=salt,
        )
        return request.sequence

    def _prepare(self, request: Request) -> None:
        """Tokenise what the session does not know yet. Its ledger cannot change meanwhile: one request per session."""
        if request not in self._book:
            return
        try:
            outcome: Outcome = self._prepared(request.submit)
        except ParleyError as refusal:
            outcome = refusal
        except Exception as error:
            log.exception("llm.prepare_failed")
            outcome = StageError(f"the prompt could not be prepared: {error}")
        self._report(request, outcome)

    def _prepared(self, submit: Submit) -> Prepared:
        _check_sampling(submit)
        ledger, stops = self._prompts.build(submit.messages, self._sessions.ledger(submit.session))
        room = max(1, self._scheduler.limits.context_tokens - len(ledger.ids))
        max_tokens = submit.sampling.max_tokens or room
        self._scheduler.check_fits(len(ledger.ids), max_tokens)
        return Prepared(ledger, stops, max_tokens)


def _check_sampling(submit: Submit) -> None:
    spec = submit.sampling
    if spec.max_tokens is not None and spec.max_tokens < 1:
        raise InvalidRequest(f"max_tokens is {spec.max_tokens}: it must be at least 1")
    if spec.temperature < 0 or not 0 < spec.top_p <= 1 or spec.top_k < 0 or spec.repetition_penalty <= 0:
        raise InvalidRequest("sampling is out of range: temperature >= 0, 0 < top_p <= 1, top_k >= 0, penalty > 0")
