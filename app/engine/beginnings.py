"""How a request begins: checked, tokenised away from the engine's thread, and made into a sequence."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from queue import PriorityQueue
from typing import TYPE_CHECKING, TypeAlias

from app.engine.ledger import Ledger
from app.engine.limits import check_sampling
from app.engine.messages import Submit
from app.engine.prompt import PromptBuilder
from app.engine.rendering import Rendering
from app.engine.requests import Request, RequestBook
from app.engine.scheduler import Scheduler
from app.engine.sequence import Sequence
from app.engine.sessions import SessionStore
from app.engine.text import ReplyText
from app.errors import InvalidRequest, ParleyError, StageError
from app.telemetry.log import log_event

if TYPE_CHECKING:
    from app.engine.grammar import Constraint

log = logging.getLogger(__name__)

Constrain: TypeAlias = "Callable[[str], Constraint]"
"""From the JSON text of a schema to what one reply must keep to; raises InvalidRequest."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request as far as it can be made without the engine's thread."""

    ledger: Ledger
    stops: tuple[str, ...]
    max_tokens: int
    constraint: Constraint | None = None


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
        constrain: Constrain | None,
        report: Callable[[Request, Outcome], None],
    ) -> None:
        self._prompts = prompts
        self._book = book
        self._sessions = sessions
        self._scheduler = scheduler
        self._constrain = constrain
        self._report = report
        self.tokenising = tokenising
        self._queue: PriorityQueue[tuple[int, int, Request]] = PriorityQueue()
        """What ``tokenising`` is to prepare; bounded by the number of open requests."""
        self._compiling = ThreadPoolExecutor(1, "schemas")
        """For requests with a schema: working out one may take seconds, for which no other request should wait."""

    def prepare_soon(self, request: Request) -> None:
        """The most urgent first: a draft with a long history does not hold up a turn."""
        if self.tokenising is None:
            self._prepare(request)
            return
        try:
            if request.submit.sampling.json_schema is not None:
                self._compiling.submit(self._prepare, request)
            else:
                self._queue.put((_rank(request.submit), request.key, request))
                self.tokenising.submit(self._prepare_next)
        except RuntimeError:  # the pool is shut: the worker is going away
            self._report(request, None)

    def sequence(self, request: Request, prepared: Prepared) -> Sequence:
        """The request as the scheduler sees it. On the engine's thread."""
        submit = request.submit
        request.ledger = prepared.ledger
        request.text = ReplyText(
            self._prompts.vocabulary.decode,
            (*submit.sampling.stop, *prepared.stops),
            # A list of equal numbers is no loop, and cut short it would not satisfy its schema.
            guard_loops=not submit.sampling.ignore_eos and prepared.constraint is None,
        )
        salt = _salt(submit.salt)
        request.sequence = Sequence(
            key=request.key,
            ids=list(prepared.ledger.ids),
            prompt_tokens=len(prepared.ledger.ids),
            sampling=submit.sampling,
            max_tokens=prepared.max_tokens,
            seed=submit.sampling.seed if submit.sampling.seed is not None else secrets.randbits(63),
            arrived_s=request.submitted_s,
            salt=salt,
            session=request.session,
            priority="low" if submit.only_prefill else submit.priority,
            spoken=submit.spoken and not submit.only_prefill,
            only_prefill=submit.only_prefill,
            constraint=prepared.constraint,
        )
        return request.sequence

    def _prepare_next(self) -> None:
        self._prepare(self._queue.get_nowait()[2])

    def _prepare(self, request: Request) -> None:
        """Tokenise what the session does not know yet. Its ledger cannot change meanwhile: one request per session."""
        if request not in self._book:
            return
        try:
            outcome: Outcome = self._prepared(request)
        except ParleyError as refusal:
            outcome = refusal
        except Exception as error:
            log_event(log, "llm.prepare_failed", level=logging.ERROR, error=error)
            outcome = StageError(f"the prompt could not be prepared: {error}")
        self._report(request, outcome)

    def _prepared(self, request: Request) -> Prepared:
        submit = request.submit
        check_sampling(submit.sampling, self._prompts.vocabulary.size)
        known = request.base if request.base is not None else self._sessions.ledger(request.session)
        if submit.only_prefill:
            ledger = self._draft(submit, known)
            self._scheduler.room(len(ledger.ids))
            return Prepared(ledger, (), 0)
        ledger, stops = self._prompts.build(submit.messages, known, tools=submit.tools, prompt=submit.prompt)
        room = self._scheduler.room(len(ledger.ids))
        wanted = submit.sampling.max_tokens
        return Prepared(ledger, stops, room if wanted is None else min(wanted, room), self._constraint(submit))

    def _draft(self, submit: Submit, known: Ledger) -> Ledger:
        """The conversation up to the end of its last content, which may still go on."""
        if submit.session is None:
            raise InvalidRequest("only_prefill needs a session to keep what it computes")
        if submit.prompt is not None:
            return self._prompts.build(submit.messages, known, prompt=submit.prompt)[0]
        rendering = self._prompts.render(submit.messages, submit.tools)
        last = max(index for index, piece in enumerate(rendering.pieces) if not piece.is_template)
        return self._prompts.tokenise(Rendering(rendering.pieces[: last + 1]), known)

    def _constraint(self, submit: Submit) -> Constraint | None:
        schema = submit.sampling.json_schema
        if schema is None:
            return None
        if self._constrain is None:
            told = "json_schema: this model's tokeniser allows no constrained output"
            raise InvalidRequest(told, param="json_schema")
        try:
            return self._constrain(schema)
        except InvalidRequest as refusal:
            raise InvalidRequest(str(refusal), param="json_schema") from refusal


def _rank(submit: Submit) -> int:
    if submit.only_prefill:
        return 4
    return {"vip": 0, "normal": 1 if submit.spoken else 2, "low": 3}[submit.priority]


def _salt(tenant: str) -> bytes:
    """Of one length however long the tenant's name is, so that no two names can be alike in their beginnings."""
    return hashlib.blake2b(tenant.encode("utf-8", "surrogatepass"), digest_size=16).digest() if tenant else b""
