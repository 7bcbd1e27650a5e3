"""Words without what recognisers add to them: punctuation, case, spelling of long sounds. Chinese by the character."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

Phrases: TypeAlias = frozenset[tuple[str, ...]]

QUESTION_MARKS = ("?", "？")
FULL_STOPS = (".", "!", "。", "！")

_MARKS = (
    r"\s!-&(-/:-@\[-`{-~\u00a1-\u00a9\u00ab-\u00b4\u00b6-\u00b9\u00bb-\u00bf\u060c\u061b\u061f\u0964\u0965"
    r"\u2000-\u2018\u201a-\u206f\u2e00-\u2e7f\u3000-\u3004\u3007-\u303f\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
"""What is no part of a word. Named rather than left to ``\\w``, which takes Hindi's vowel signs for none either."""
_IDEOGRAPHS = r"\u3005\u3006\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(
    rf"[{_IDEOGRAPHS}]|[^{_MARKS}'’{_IDEOGRAPHS}](?:[^{_MARKS}{_IDEOGRAPHS}]*[^{_MARKS}'’{_IDEOGRAPHS}])?"
)
_DRAWN_OUT = re.compile(r"([^\W\d])\1{2,}")
"""Three of a letter in a row are one that was drawn out: "nooo", "hmmm"."""


@dataclass(frozen=True, slots=True)
class Word:
    """``plain`` is for comparing; the word as written is ``text[start:end]``."""

    plain: str
    start: int
    end: int


def words_of(text: str) -> list[Word]:
    """The words of ``text`` in order: a Chinese or Japanese character is a word, anything else between marks is one."""
    return [
        Word(_DRAWN_OUT.sub(r"\1", match[0].lower().replace("’", "'")), match.start(), match.end())
        for match in _WORD.finditer(text)
    ]


def plain(text: str) -> tuple[str, ...]:
    return tuple(word.plain for word in words_of(text))


_SHORT_CHARACTERS = 300
"""No signal is longer: bounds what is looked at of a text of any length."""


def short(text: str) -> tuple[str, ...]:
    """``plain`` of a text that may be a command, a greeting or listener's noise; nothing of a longer one."""
    return plain(text) if len(text) <= _SHORT_CHARACTERS else ()


def beginning(text: str) -> tuple[str, ...]:
    """``plain`` of as much of ``text`` as a command at its beginning can take up."""
    return plain(text[:_SHORT_CHARACTERS])


def vocabulary(*texts: str) -> frozenset[str]:
    """The words of ``texts``, with spaces between them."""
    return frozenset(word for text in texts for word in text.split())


def phrases(*texts: str) -> Phrases:
    """A list of phrases, one or more in each text, with "|" between them."""
    return frozenset(plain(phrase) for text in texts for phrase in text.split("|") if plain(phrase))


@lru_cache(maxsize=64)
def _longest(among: Phrases) -> int:
    return max(map(len, among), default=0)


def starts_with(words: Sequence[str], among: Phrases) -> int:
    """How many words the longest of the phrases takes up that ``words`` begin with; 0 if there is none."""
    return next((n for n in range(min(_longest(among), len(words)), 0, -1) if tuple(words[:n]) in among), 0)


def ends_with(words: Sequence[str], among: Phrases) -> int:
    """The same of the end of ``words``."""
    return next((n for n in range(min(_longest(among), len(words)), 0, -1) if tuple(words[-n:]) in among), 0)


def consists_of(words: Sequence[str], *kinds: Phrases) -> bool:
    """Whether ``words`` are nothing but phrases of these kinds, one after the other, at least one of the first kind."""
    if not words:
        return False
    # Which of (nothing of the first kind yet, something of it) can be had for the words up to each place.
    reached: list[set[bool]] = [{False}, *(set() for _ in words)]
    longest = max(map(_longest, kinds))
    for start in range(len(words)):
        for end in range(start + 1, min(len(words), start + longest) + 1):
            if not reached[start]:
                break
            phrase = tuple(words[start:end])
            if phrase in kinds[0]:
                reached[end].add(True)
            elif any(phrase in kind for kind in kinds[1:]):
                reached[end] |= reached[start]
    return True in reached[-1]


def after(words: Sequence[str], leading: Phrases) -> tuple[str, ...]:
    """What is left of ``words`` when the leading phrases they begin with, however many, are taken away."""
    start, longest = 0, _longest(leading)
    while taken := starts_with(words[start : start + longest], leading):
        start += taken
    return tuple(words[start:])
