"""Who has a reply open, and whose turn it is in each session."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from app.engine.ledger import Ledger
from app.engine.messages import ReplyEvent, Submit
from app.engine.sequence import Sequence, SessionKey
from app.engine.text import ReplyText

Sink: TypeAlias = Callable[[ReplyEvent], None]
"""Takes a request's events, on the engine's thread; must return at once and never raise."""


@dataclass(slots=True, eq=False)
class Request:
    """One submitted reply, from its submission to its terminal event."""

    key: int
    submit: Submit
    sink: Sink
    submitted_s: float
    sequence: Sequence | None = None
    """None until it was tokenised."""
    ledger: Ledger = field(default_factory=Ledger)
    text: ReplyText | None = None
    base: Ledger | None = None
    """Of the draft that it supersedes: what need not be tokenised again. None: the session's own."""
    untold: int = 0
    """Tokens drawn since the last Delta."""
    told_s: float = 0.0
    """When the last Delta was sent."""

    @property
    def session(self) -> SessionKey | None:
        name = self.submit.session
        return None if name is None else (self.submit.salt, name)

    @property
    def is_draft(self) -> bool:
        return self.submit.only_prefill


@dataclass(frozen=True, slots=True)
class Entry:
    """What a submission leads to."""

    request: Request
    refused: bool = False
    superseded: tuple[Request, ...] = ()
    """To be cancelled now."""
    may_begin: bool = True
    """False while it waits for an older request of its session to end."""


class RequestBook:
    """Open requests; in each session one that is active, and at most one that follows it. Safe from any thread."""

    def __init__(self, most_open: int) -> None:
        self._most_open = most_open
        self._lock = threading.Lock()
        self._open: dict[int, Request] = {}
        self._active: dict[SessionKey, Request] = {}
        self._following: dict[SessionKey, Request] = {}
        self._deadlines: list[tuple[float, int]] = []
        """A heap of moments and keys; those that have ended meanwhile are left in until their turn."""
        self._next_key = 0

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, request: Request) -> bool:
        return request.key in self._open

    def get(self, key: int) -> Request | None:
        return self._open.get(key)

    def everybody(self) -> list[Request]:
        with self._lock:
            return list(self._open.values())

    def enter(self, submit: Submit, sink: Sink, now_s: float) -> Entry:
        """Note a new request. A newer one of a session takes the place of the older, which must end first.

        A draft leaves no reply behind that its successor would have to wait for; and it ends no reply, it waits.
        """
        with self._lock:
            self._next_key += 1
            request = Request(self._next_key, submit, sink, now_s)
            # A draft only saves time later: it leaves the second half of the queue to those who wait for an answer.
            full = len(self._open) >= (self._most_open // 2 if request.is_draft else self._most_open)
            self._open[request.key] = request
            session = request.session
            if full:
                return Entry(request, refused=True, may_begin=False)
            if submit.deadline_s is not None:
                heapq.heappush(self._deadlines, (now_s + submit.deadline_s, request.key))
            if session is None:
                return Entry(request)
            older = self._active.get(session)
            if older is None:
                self._active[session] = request
                return Entry(request)
            if older.is_draft:
                self._active[session] = request
                if older.sequence is not None:
                    request.base = older.ledger
                return Entry(request, superseded=(older,))
            replaced = self._following.get(session)
            self._following[session] = request
            ending = (replaced, None if request.is_draft else older)
            superseded = tuple(ended for ended in ending if ended is not None)
            return Entry(request, superseded=superseded, may_begin=False)

    @property
    def next_deadline_s(self) -> float | None:
        with self._lock:
            while self._deadlines and self._deadlines[0][1] not in self._open:
                heapq.heappop(self._deadlines)
            return self._deadlines[0][0] if self._deadlines else None

    def overdue(self, now_s: float) -> list[Request]:
        """Open requests whose deadline has passed; each is returned once."""
        if not self._deadlines:
            return []
        late: list[Request] = []
        with self._lock:
            while self._deadlines and self._deadlines[0][0] <= now_s:
                request = self._open.get(heapq.heappop(self._deadlines)[1])
                if request is not None:
                    late.append(request)
        return late

    def leave(self, request: Request) -> Request | None:
        """Strike a request that has ended; returns the one of its session that may begin now."""
        with self._lock:
            self._open.pop(request.key, None)
            session = request.session
            if session is None:
                return None
            if self._following.get(session) is request:
                del self._following[session]
                return None
            if self._active.get(session) is not request:
                return None
            follower = self._following.pop(session, None)
            if follower is None:
                del self._active[session]
            else:
                self._active[session] = follower
            return follower

    def active(self, session: SessionKey) -> Request | None:
        return self._active.get(session)

    def of_session(self, session: SessionKey) -> list[Request]:
        """The open requests of a session, the newest first, so that ending them in this order starts none."""
        with self._lock:
            found = (self._following.get(session), self._active.get(session))
            return [request for request in found if request is not None]

    def clear(self) -> None:
        with self._lock:
            self._open.clear()
            self._active.clear()
            self._following.clear()
            self._deadlines.clear()
