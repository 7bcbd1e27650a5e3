"""How a turn went, as its events tell it: the same for the saved one and for its replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.errors import InvalidRequest
from app.replay.bundle import Bundle

Timed = tuple[float, Mapping[str, Any]]
"""Seconds since the turn's sound began, and a server event."""


@dataclass(frozen=True, slots=True)
class Course:
    """``spans_ms`` are (start, end) of each stage, in ms since the end of speech."""

    user: str = ""
    reply: str = ""
    """What was heard of it."""
    status: str = "unanswered"
    """"completed", "cancelled", "failed", or "unanswered"."""
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    spans_ms: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    usage: Mapping[str, int] | None = None
    notices: tuple[tuple[str, str], ...] = ()
    """Code and text of Parley's own lines."""
    errors: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    """Types of the events, without those that only tell how far something has come, and without what is left of a
    reply that began before this turn."""


_PROGRESS = frozenset({"parley.heard", "parley.state", "parley.pong"})
_DELTA = ".delta"
_LONGEST_MS = 1e7


def course(events: Iterable[Timed], response_id: str) -> Course:
    """Of the turn that ``response_id`` answered; of one that nothing has answered, if it is ""."""
    user: list[str] = []
    found: dict[str, Any] = {}
    notices, errors, order = [], [], []
    begun: set[str] = set()
    for _, event in events:
        kind = event["type"]
        of = event.get("response_id") or event.get("response", {}).get("id")
        if kind == "response.created":
            begun.add(of)
        if kind not in _PROGRESS and not kind.endswith(_DELTA) and (of is None or of in begun):
            order.append(kind)
        match kind:
            case "conversation.item.input_audio_transcription.completed":
                if "status" not in found:
                    user = [*user, str(event.get("transcript", ""))]
            case "response.output_audio_transcript.done" | "response.output_text.done":
                if event.get("response_id") == response_id:
                    found["reply"] = str(event.get("transcript", event.get("text", "")))
            case "parley.turn" if event.get("response_id") == response_id:
                found["timings_ms"] = {name: _ms(value) for name, value in event.get("timings_ms", {}).items()}
                spans = event.get("spans_ms", {})
                found["spans_ms"] = {name: (_ms(start), _ms(end)) for name, (start, end) in spans.items()}
                usage = event.get("usage")
                found["usage"] = usage and {name: int(count) for name, count in usage.items()}
            case "response.done" if event["response"]["id"] == response_id:
                found["status"] = str(event["response"]["status"])
            case "parley.notice":
                notices.append((str(event.get("code", "")), str(event.get("text", ""))))
            case "error":
                errors.append(str(event["error"].get("message", "")))
    # An utterance that goes on is told again, with more words.
    said = user[-1] if user else ""
    return Course(user=said, notices=tuple(notices), errors=tuple(errors), order=tuple(order), **found)


def _ms(value: Any) -> float:
    """Raises ValueError for what no turn can take."""
    if isinstance(value, bool) or not abs(ms := float(value)) <= _LONGEST_MS:
        raise ValueError(f"{value!r} is no time")
    return ms


def saved_course(bundle: Bundle) -> Course:
    """Raises InvalidRequest if an event is none that Parley tells."""
    events = [(event.at_s, event.event) for event in bundle.events if event.side == "server"]
    try:
        return course(events, bundle.facts.response_id)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidRequest(
            f"This is not a saved turn: events.jsonl holds an event that cannot be ({error!r})."
        ) from None
