"""What a replay did otherwise, in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.replay.course import Course

_NOTABLE_MS = 100.0
_NOTABLE_SHARE = 0.25
"""A stage is called slower or faster beyond both of these: less is the machine's mood."""
_NAMES: Mapping[str, str] = {
    "endpoint": "The turn was taken for over",
    "asr": "Recognition took",
    "llm_first_token": "The language model's first word took",
    "first_clause": "Its first clause took",
    "tts_first_audio": "The voice's first sound took",
    "playout": "Until it was played took",
    "voice_to_voice": "Voice to voice took",
}


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
    for kind, before, after in (("line", then.notices, now.notices), ("error", then.errors, now.errors)):
        for text in after:
            if text not in before:
                tell(f"There is an {kind} more: {text}".replace("an line", "a line"), matters=True)
        for text in before:
            if text not in after:
                tell(f"There is no such {kind} now: {text}", matters=True)
    for name, words in _NAMES.items():
        if name in then.timings_ms and name in now.timings_ms:
            found += _pace(words, then.timings_ms[name], now.timings_ms[name], is_end=name == "endpoint")
    return found


def _pace(words: str, then_ms: float, now_ms: float, *, is_end: bool) -> list[Difference]:
    by = now_ms - then_ms
    if abs(by) < max(_NOTABLE_MS, _NOTABLE_SHARE * then_ms):
        return []
    how = ("later" if by > 0 else "earlier") if is_end else ("longer" if by > 0 else "less long")
    return [Difference(f"{words} {abs(by):.0f} ms {how}: {now_ms:.0f} ms, then {then_ms:.0f} ms.", matters=False)]


def _plain(text: str) -> str:
    """Words alone: a comma more is no other transcript."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _quoted(text: str) -> str:
    return f"“{text}”" if text else "nothing"
