"""What is known of one turn: what the caller did, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from app.bench.voice.call import Said
from app.bench.voice.listening import Gap, Heard, Yielding, gaps, last_sound, onset, yielding

Events: TypeAlias = Sequence[tuple[float, dict[str, Any]]]
"""What the server told, each with the moment of its arrival."""

_CUT_IN_S = 0.1
"""Sound this soon after the question began still belongs to what was before."""
_TRANSIT_S = 0.1
"""Sound and events travel apart: what was sent before an event may arrive this much after it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One turn as the caller held it."""

    session: int
    number: int
    text: str
    voice: str
    said: Said
    over_s: float
    """When the caller took it for over: the assistant listened and was silent, or patience had ended."""
    stop: Said | None = None
    """When "stop" was said over the reply, if it was."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A "stop" said over the reply, and what it did."""

    obeyed: bool
    """The reply was broken off. False if it went on to its end."""
    ducked_ms: float | None
    silent_ms: float | None


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn, measured."""

    session: int
    number: int
    asked: str
    voice: str
    recognised: str
    reply: str
    answered: bool
    voice_to_voice_ms: float | None
    """From the last sample of speech leaving to the first audible sample of the reply arriving."""
    cut_in: bool
    """The assistant spoke before the question was over."""
    timings_ms: dict[str, float]
    """The server's own waterfall."""
    early: dict[str, float] | None
    """What the server says of a reply begun before the turn was over."""
    notices: tuple[str, ...]
    gaps: tuple[Gap, ...]
    stop: Stop | None
    errors: tuple[str, ...] = field(default=())


def measured(asked: Asked, heard: Heard, events: Events) -> Turn:
    """The turn as it was heard. ``heard`` and ``events`` may be those of the whole call."""
    own = [(at_s, event) for at_s, event in events if asked.said.first_s <= at_s <= asked.over_s]
    reply_until_s = asked.stop.first_s if asked.stop is not None else asked.over_s
    before_stop = [(at_s, event) for at_s, event in own if at_s <= reply_until_s]
    began_s = _reply_began(asked, heard, before_stop, reply_until_s)
    recognised = _texts(before_stop, "conversation.item.input_audio_transcription.completed")
    completed = any(_status(event) == "completed" for _, event in own)
    cut_in = onset(heard, asked.said.first_s + _CUT_IN_S, asked.said.last_s) is not None
    turn = next((event for _, event in reversed(before_stop) if event["type"] == "parley.turn"), {})
    if not turn and asked.stop is not None:  # told at the end of its text, which may be after the stop
        turn = next((event for _, event in own if event["type"] == "parley.turn"), {})
    return Turn(
        session=asked.session,
        number=asked.number,
        asked=asked.text,
        voice=asked.voice,
        recognised=recognised,
        reply=_reply_text(before_stop, own),
        answered=began_s is not None and bool(recognised) and (completed or asked.stop is not None),
        voice_to_voice_ms=None if began_s is None else (began_s - asked.said.last_s) * 1000,
        cut_in=cut_in,
        timings_ms=dict(turn.get("timings_ms", {})),
        early=turn.get("early"),
        notices=tuple(str(event.get("code")) for _, event in own if event["type"] == "parley.notice"),
        gaps=tuple(gaps(heard, began_s, reply_until_s)) if began_s is not None else (),
        stop=_stop(asked.stop, asked.over_s, heard, own) if asked.stop is not None else None,
        errors=tuple(str(event["error"].get("code")) for _, event in own if event["type"] == "error"),
    )


def _reply_began(asked: Asked, heard: Heard, events: Events, until_s: float) -> float | None:
    """When the answer itself became audible: a line of Parley's own ("One moment.") does not count as one."""
    after_s = asked.said.last_s
    answers = {event["response"]["id"] for _, event in events if event["type"] == "response.created"}
    notices = [at_s for at_s, event in events if event["type"] == "parley.notice"]
    if not answers:
        return None
    heard_s = [at_s for at_s, event in events if event["type"] == "parley.heard"]
    first_s = onset(heard, after_s, until_s)
    if first_s is None or not notices or notices[0] > first_s + _TRANSIT_S:
        return first_s
    # The first word of the answer has been heard by its event; its sound began after the last pause before that.
    if not heard_s:
        return None
    return _run_began(heard, after_s, heard_s[0])


def _run_began(heard: Heard, after_s: float, until_s: float) -> float | None:
    """Where the sound that was heard at ``until_s`` began, after a pause of at least 100 ms."""
    part = heard.between(after_s, until_s)
    moments = part.at_s[part.sounding]
    if not len(moments):
        return None
    began = float(moments[-1])
    for moment in reversed(moments[:-1]):
        if began - moment > 0.1:
            break
        began = float(moment)
    return began


def _stop(said: Said, over_s: float, heard: Heard, events: Events) -> Stop | None:
    """None if the reply was over before it could be stopped."""
    ended = next(((at_s, _status(event)) for at_s, event in events if at_s >= said.first_s and _status(event)), None)
    over_at_s = min(over_s, ended[0] + _TRANSIT_S) if ended is not None else over_s
    obeyed = ended is not None and ended[1] == "cancelled"
    quiet = last_sound(heard, said.first_s, over_at_s)
    if not obeyed and (quiet is None or quiet < said.last_s):
        return None
    way: Yielding | None = yielding(heard, said.first_s, over_at_s) if obeyed else None
    return Stop(obeyed, way.ducked_ms if way else None, way.silent_ms if way else None)


def _status(event: dict[str, Any]) -> str:
    return str(event["response"].get("status", "")) if event["type"] == "response.done" else ""


def _reply_text(before_stop: Events, events: Events) -> str:
    """What was heard of the replies to the question itself, not of one to "stop"."""
    ids = {event["response"]["id"] for _, event in before_stop if event["type"] == "response.created"}
    return _texts([one for one in events if one[1].get("response_id") in ids], "response.output_audio_transcript.done")


def _texts(events: Events, kind: str) -> str:
    told = {event.get("item_id"): str(event.get("transcript", "")) for _, event in events if event["type"] == kind}
    return " ".join(text.strip() for text in told.values()).strip()  # what is told again has grown
