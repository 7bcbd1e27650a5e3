"""The assistant's own words, come back through the user's microphone."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher, get_close_matches

from app.dialogue.words.backchannel import is_backchannel
from app.dialogue.words.commands import asks_to_go_on, is_farewell, is_stop
from app.dialogue.words.nudges import is_nudge
from app.dialogue.words.plain import plain

_LIKENESS = 0.75
"""Difflib's ratio above which two words are one that was heard badly ("ill-sposed", "disposed")."""
_SHARE = 0.7
"""Of the letters heard, so many must have been spoken, in the same order: recognisers get one word in five of a faint
echo wrong."""
_MOST_SPREAD = 1.5
"""Words picked here and there from a longer passage are not that passage."""
_LONGEST_FOREIGN_RUN = 2
"""More words than this in a row that were not spoken are the user's."""
_SHORT_WORDS = 2
_TAIL = 12
"""One or two words are looked for among the last of what was spoken: an echo is some 200 ms late, its recognition some
hundred more, and the text may run ahead of the sound by a few words."""
_ANSWERS_TAIL = 3
_ANSWERED_TAIL = 4
_MOST_WORDS = 40
"""Some 15 s of speech: bounds the work (difflib's is quadratic)."""


def is_echo(words: str, spoken: str) -> bool:
    """Whether ``words`` are what the assistant was just saying; ``spoken`` is the last seconds of that.

    Longer utterances are compared loosely, as an echo is recognised badly. One or two words are not: most short words
    of a conversation are in most replies, and a user's "yes" or "thank you" must not vanish. They are an echo only where
    the reply has just come to them, those that people answer with only at its very end, and a command to stop only if the
    reply ended with it.

    After a question ("tea or coffee?") people answer in its own words. An echo then reaches to the question's end.
    """
    heard, said = plain(words)[-_MOST_WORDS:], plain(spoken)[-_MOST_WORDS:]
    if not heard or not said:
        return False
    asked = spoken.rstrip().endswith(("?", "？"))
    if len(heard) > _SHORT_WORDS:
        return _was_spoken(heard, said) and (not asked or heard[-1] in said[-_ANSWERED_TAIL:])
    if asked:
        return False
    if is_stop(words):
        return said[-len(heard) :] == heard
    answer = is_backchannel(words) or asks_to_go_on(words) or is_farewell(words) or is_nudge(words)
    tail = said[-_ANSWERS_TAIL:] if answer else said[-_TAIL:]
    return any(_alike(heard, tail[at : at + len(heard)]) for at in range(len(tail) - len(heard) + 1))


def _alike(heard: Sequence[str], said: Sequence[str]) -> bool:
    return all(
        a == b or SequenceMatcher(None, a, b, False).ratio() >= _LIKENESS for a, b in zip(heard, said, strict=True)
    )


def _was_spoken(heard: Sequence[str], said: Sequence[str]) -> bool:
    vocabulary = sorted(set(said))
    corrected = [word if word in vocabulary else _closest(word, vocabulary) for word in heard]
    blocks = [block for block in SequenceMatcher(None, corrected, said, False).get_matching_blocks() if block.size]
    if not blocks:
        return False
    common = [word for block in blocks for word in heard[block.a : block.a + block.size]]
    if blocks[-1].b + blocks[-1].size - blocks[0].b > _MOST_SPREAD * len(heard):
        return False
    if len("".join(common)) < _SHARE * len("".join(heard)):
        return False
    ends = [0, *(block.a + block.size for block in blocks)]
    starts = [*(block.a for block in blocks), len(heard)]
    foreign = [heard[end:start] for end, start in zip(ends, starts, strict=True) if start > end]
    return not any(len(run) > _LONGEST_FOREIGN_RUN or is_stop(" ".join(run)) for run in foreign)


def _closest(word: str, vocabulary: Sequence[str]) -> str:
    return next(iter(get_close_matches(word, vocabulary, n=1, cutoff=_LIKENESS)), word)
