"""How a call begins: what its client wants of the session, or which one it comes back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.dialogue.ports import ConversationPort, EventSink, LastHeard, SessionHost
from app.errors import InvalidRequest

_MAX_TOKEN_CHARS = 200
_MAX_ID_CHARS = 64


@dataclass(frozen=True, slots=True)
class Start:
    """``session`` is a session object (docs/events.md) not yet looked at; ``token`` is that of a session to resume."""

    session: Any = None
    token: str = ""
    heard: LastHeard | None = None


AFRESH = Start()
"""A session of its own, as the settings say."""


def read_start(body: Mapping[str, Any]) -> Start:
    """The fields ``session`` and ``resume`` of an offer or of a WebSocket's first message. Raises InvalidRequest."""
    resume = body.get("resume")
    if resume is None:
        return Start(body.get("session"))
    token = resume.get("token") if isinstance(resume, dict) else None
    if not isinstance(token, str) or not 0 < len(token) <= _MAX_TOKEN_CHARS:
        raise InvalidRequest("resume.token must be the token that session.created told.", param="resume.token")
    return Start(body.get("session"), token, _last_heard(resume.get("heard")))


def _last_heard(given: Any) -> LastHeard | None:
    if given is None:
        return None
    response_id, chars = (given.get("response_id"), given.get("chars")) if isinstance(given, dict) else (None, None)
    if (
        not isinstance(response_id, str)
        or len(response_id) > _MAX_ID_CHARS
        or isinstance(chars, bool)
        or not isinstance(chars, int)
        or chars < 0
    ):
        raise InvalidRequest(
            "resume.heard must be {response_id, chars} of the last parley.heard, or null.", param="resume.heard"
        )
    return LastHeard(response_id, chars)


async def take_seat(host: SessionHost, start: Start, send: EventSink, *, transport: str) -> ConversationPort:
    """Open a session, or take up the one whose token ``start`` has.

    Raises SessionLimit, ResumeExpired, InvalidRequest; nothing is left behind then.
    """
    options = None if start.session is None else host.options(start.session)
    if not start.token:
        return await host.open(send, transport=transport, options=options)
    seat = await host.resume(start.token, send, transport=transport, heard=start.heard)
    if options is not None:  # what was changed on the page while nobody was there
        seat.receive({"type": "session.update", "session": start.session})
    return seat
