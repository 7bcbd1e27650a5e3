"""What a replay did otherwise, in words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.replay.course import Course
from app.telemetry.trace import STAGE_NAMES

_NOTABLE_MS = 100.0
_NOTABLE_SHARE = 0.25
"""A stage is called slower or faster beyond both of these: less is the machine's mood."""
_SLOW = "one_moment"
"""That an answer is slow is told of by its stages."""
_ENDED = "endpoint"
"""Not a stage that is fast or slow, but a moment."""
_WITH_ARTICLE = frozenset({"llm_first_token", "first_clause", "tts_first_audio"})


@dataclass(frozen=True, slots=True)
class Difference:
    """``matters`` where the turn has gone another way, and not only at another pace or in other words."""

    text: str
    matters: bool


def differences(then: Course, now: Course, *, recorded: bool) -> list[Difference]:
    """``recorded`` stages should repeat themselves to the word; real ones may find other words for a reply."""
    found: list[Difference] = []

    def tell(text: str, *, matters: bool) -> None:
        found.append(Difference(text, matters))

    if _plain(then.user) != _plain(now.user):
        tell(f"Other words were heard: now {_quoted(now.user)}, then {_quoted(then.user)}.", matters=True)
    if then.status != now.status:
        tell(f"The reply ended otherwise: now {now.status}, then {then.status}.", matters=True)
    if then.reply != now.reply:
        tell(f"Another reply was heard: now {_quoted(now.reply)}, then {_quoted(then.reply)}.", matters=recorded)
    for code, text in now.notices:
        if (code, text) not in then.notices:
            tell(f"Parley itself says now: {_quoted(text)}", matters=code != _SLOW)
    for code, text in then.notices:
        if (code, text) not in now.notices:
            tell(f"Parley itself said then: {_quoted(text)}", matters=code != _SLOW)
    for text in now.errors:
        if text not in then.errors:
            tell(f"There is an error now: {text}", matters=True)
    for text in then.errors:
        if text not in now.errors:
            tell(f"There was an error then: {text}", matters=True)
    for name in STAGE_NAMES:
        if name in then.timings_ms and name in now.timings_ms:
            found += _pace(name, then.timings_ms[name], now.timings_ms[name])
    return found


def _pace(name: str, then_ms: float, now_ms: float) -> list[Difference]:
    by = now_ms - then_ms
    if abs(by) < max(_NOTABLE_MS, _NOTABLE_SHARE * then_ms):
        return []
    if name == _ENDED:
        what = f"The turn was ended {abs(by):.0f} ms {'later' if by > 0 else 'earlier'}"
    else:
        stage = f"The {STAGE_NAMES[name]}" if name in _WITH_ARTICLE else STAGE_NAMES[name].capitalize()
        what = f"{stage} was {abs(by):.0f} ms {'slower' if by > 0 else 'faster'}"
    return [Difference(f"{what}: {now_ms:.0f} ms now, {then_ms:.0f} ms then.", matters=False)]


def _plain(text: str) -> str:
    """Words alone: a comma more is no other transcript."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _quoted(text: str) -> str:
    return f"“{text}”" if text else "nothing"
