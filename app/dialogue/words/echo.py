"""The assistant's own words, come back through the user's microphone."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

from app.dialogue.words.backchannel import is_backchannel
from app.dialogue.words.commands import STOPS, asks_to_go_on, is_farewell, is_stop
from app.dialogue.words.nudges import is_nudge
from app.dialogue.words.plain import plain, starts_with

_UNLIKENESS = ((13, 0.4), (6, 0.3), (0, 0.2))
"""(from this size on, share of the letters that may be wrong). Of a voice at -20 dB Whisper base made "Reboats", "We'll the
pasta for" and "things from force": at most a third wrong. Other people's sentences had 43 % at best from 13 letters on,
33 % from 6 on. A Chinese character counts as three letters."""
_PASSAGE = 3
_PASSAGE_UNLIKENESS = 0.6
"""As many words at either end, so wrong, are somebody else's: the user has begun to speak into the echo."""
_SHORT_WORDS = 2
_LIKENESS = 0.75
"""Difflib's ratio above which two words are one that was heard badly."""
_TAIL = 12
"""One or two words are looked for among the last of what was spoken: an echo is some 200 ms late, its recognition some
hundred more, and the text may run ahead of the sound by a few words."""
_ANSWERS_TAIL = 3
_LONG_LETTERS = 9
"""Two words of so many letters are compared by the letter, too: "The McGarden" for "them a garden"."""
_ANSWERED_TAIL = 4
_ANSWER_UNLIKENESS = 0.2
"""Answers vary a question's words ("I would like tea")."""
_MOST_WORDS = 30
_MOST_CHARACTERS = 400
_WORD_LETTERS = 40
"""Some 10 s of speech, however it is written: bounds the work, which is letters times letters."""


def is_echo(words: str, spoken: str) -> bool:
    """Whether ``words`` are what the assistant was just saying; ``spoken`` is the last seconds of that.

    Longer utterances are compared by the letter and loosely, as an echo is recognised badly. One or two words are not: most
    short words of a conversation are in most replies, and a user's "yes" or "thank you" must not vanish. They are an echo
    only where the reply has just come to them, those that people answer with only at its very end, and a command to stop
    only if the reply ended with it. A longer utterance with such a command that was not spoken is the user's, too.

    After a question ("tea or coffee?") people answer in its own words. An echo then reaches to the question's end.
    """
    heard, said = _last_words(words), _last_words(spoken)
    if not heard or not said:
        return False
    asked = spoken.rstrip().endswith(("?", "？"))
    if len(heard) <= _SHORT_WORDS:
        return not asked and _is_short_echo(words, heard, said)
    if any(starts_with(heard[at:], STOPS) and heard[at] not in said for at in range(len(heard))):
        return False
    if asked:
        before_end = len("".join(said[:-_ANSWERED_TAIL]))
        return _unlikeness(heard, said, before_end) <= _ANSWER_UNLIKENESS
    if _unlikeness(heard, said) > _most_unlike(heard):
        return False
    return all(_unlikeness(part, said) <= _PASSAGE_UNLIKENESS for part in (heard[:_PASSAGE], heard[-_PASSAGE:]))


def _last_words(text: str) -> tuple[str, ...]:
    return tuple(word[:_WORD_LETTERS] for word in plain(text.rstrip()[-_MOST_CHARACTERS:])[-_MOST_WORDS:])


def _is_short_echo(words: str, heard: tuple[str, ...], said: tuple[str, ...]) -> bool:
    if is_stop(words):
        return said[-len(heard) :] == heard
    answer = is_backchannel(words) or asks_to_go_on(words) or is_farewell(words) or is_nudge(words)
    tail = said[-_ANSWERS_TAIL:] if answer else said[-_TAIL:]
    if any(_alike(heard, tail[at : at + len(heard)]) for at in range(len(tail) - len(heard) + 1)):
        return True
    return len("".join(heard)) >= _LONG_LETTERS and not answer and _unlikeness(heard, tail) <= _ANSWER_UNLIKENESS


def _alike(heard: Sequence[str], said: Sequence[str]) -> bool:
    return all(
        a == b or SequenceMatcher(None, a, b, False).ratio() >= _LIKENESS for a, b in zip(heard, said, strict=True)
    )


def _most_unlike(heard: Sequence[str]) -> float:
    size = len("".join(heard).encode("utf-8", "surrogatepass"))
    return next(share for least, share in _UNLIKENESS if size >= least)


def _unlikeness(heard: Sequence[str], said: Sequence[str], ending_from: int = 0) -> float:
    """Edits per letter that make ``heard`` of the passage of ``said`` it is most like, spaces apart; passages that end
    before letter ``ending_from`` do not count.

    Sellers, "The theory and computation of evolutionary distances", J. Algorithms 1, 1980: edit distance, free of charge
    for what is left out at either end of ``said``.
    """
    text = _letters(said)
    places = np.arange(len(text) + 1)
    costs = np.zeros(len(text) + 1)
    for count, letter in enumerate(_letters(heard), 1):
        step = np.empty_like(costs)
        step[0] = count
        step[1:] = np.minimum(costs[:-1] + (text != letter), costs[1:] + 1)
        costs = np.minimum.accumulate(step - places) + places  # letters of ``said`` that were not heard
    return float(costs[ending_from:].min()) / max(1, len("".join(heard)))


def _letters(words: Sequence[str]) -> NDArray[np.uint32]:
    return np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), np.uint32)
