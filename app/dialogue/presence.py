"""The client is lost and comes back: what the assistant has to say waits, and what was missed is said again."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from app.audio.playout import REWIND_SAMPLES
from app.dialogue import answers, playback, turns
from app.dialogue.commands import Hold, Rewind
from app.dialogue.events import Returned
from app.dialogue.state import Item, Reply, Timer
from app.dialogue.step import Step

_LONG_NUMBER = 18
_TOLD_BYTES = 200_000
"""Of history, as it is sent: browsers close a data channel over which more than 256 KiB come at once."""
_CLAUSE_END = re.compile(r"[.!?,;:。！？，；：]\s*")


def left(step: Step, at_sample: int) -> None:
    """Nobody listens: a reply stops in mid-word. What the user was saying is their turn, as far as it came."""
    step.change(left=True)
    turns.spoke_too_long(step, at_sample)
    reply = step.state.reply
    if reply is not None and not reply.held:
        if reply.audible:
            playback.silence(step)
        else:
            step.do(Hold())
            step.clear_timers(Timer.PLAYBACK)
    step.set_timer(Timer.RETURN, step.state.limits.resume_s)


def returned(step: Step, event: Returned) -> None:
    """Tell the client what it may have lost, and go on from the beginning of the clause that it did not hear."""
    step.change(left=False, connecting=True, last_exchange_at=step.now)
    step.clear_timers(Timer.RETURN)
    rest = ""
    if step.state.reply is not None:
        _rewind(step, event)
    elif event.reply_id:
        rest = _take_back(step, event)
    _tell_history(step)
    if rest:
        answers.begin_greeting(step, rest)
    elif step.state.utterance is None:  # else what they said over the reply decides whether it goes on
        playback.resume(step)
    step.tell("parley.state", state=step.state.phase)


def _rewind(step: Step, event: Returned) -> None:
    reply = step.state.reply
    assert reply is not None
    if not reply.audible:
        return
    heard = reply.heard_chars
    if event.reply_id:
        heard = min(heard, event.chars if event.reply_id == reply.id else 0)
    sample = max(_sample_of(reply, _clause_begin(reply.text, heard)), reply.played_samples - REWIND_SAMPLES)
    if sample < reply.played_samples:
        step.do(Rewind(sample))
        heard = replace(reply, heard_chars=0).heard_after(sample)
        step.change_reply(played_samples=sample, heard_chars=heard)


def _take_back(step: Step, event: Returned) -> str:
    """What was played into a dead connection at the end of a reply: cut from the history, to be said again."""
    *before, last = step.state.history or (Item("", "user", ""),)
    if last.role != "assistant" or last.unheard or last.shown or _number(last.id) < _number(event.reply_id):
        return ""
    heard = event.chars if last.id == event.reply_id else 0
    if heard >= len(last.text):
        return ""
    begin = _clause_begin(last.text, heard)
    kept = (replace(last, text=last.text[:begin].strip()),) if last.text[:begin].strip() else ()
    step.change(history=(*before, *kept))
    return last.text[begin:].strip()


def _clause_begin(text: str, chars: int) -> int:
    return max((match.end() for match in _CLAUSE_END.finditer(text, 0, chars)), default=0)


def _sample_of(reply: Reply, chars: int) -> int:
    """Where in the sound the word that begins at ``chars`` begins: where the one before it ends."""
    ends = [sample for words in reply.clauses for end, sample in words if end <= chars]
    return max(ends, default=0)


def _number(item_id: str) -> int:
    """Ids are given out in order. A client may give anything for one."""
    number = item_id.rpartition("_")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < _LONG_NUMBER else 0


def _tell_history(step: Step) -> None:
    state = step.state
    step.tell("parley.history", items=_latest((*state.history, *state.typed)))
    reply = state.reply
    if reply is not None and reply.phrase is None and not reply.early:
        answers.tell_so_far(step, reply)
        if reply.heard_chars and not reply.silent:
            step.tell("parley.heard", response_id=reply.id, item_id=reply.id, chars=reply.heard_chars)


def _latest(items: tuple[Item, ...]) -> list[dict[str, str]]:
    """The end of the conversation, as much of it as one event can hold."""
    told: list[dict[str, str]] = []
    left = _TOLD_BYTES
    for item in reversed(items):
        fields = {"id": item.id, "role": item.role, "text": item.text, "unheard": item.unheard}
        left -= len(json.dumps(fields)) + 1
        if left < 0:
            break
        told.append(fields)
    return told[::-1]
