"""How far a transcript is from what was said."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DIGITS = {
    word: digits
    for digits, words in {
        "0": "zero oh",
        "1": "one",
        "2": "two",
        "3": "three",
        "4": "four",
        "5": "five",
        "6": "six",
        "7": "seven",
        "8": "eight",
        "9": "nine",
        "1 0": "ten",
    }.items()
    for word in words.split()
}
_FILLERS = frozenset({"um", "uh", "uhm", "mm", "hmm", "er"})
"""Recognisers leave these out, and rightly."""


@dataclass(frozen=True, slots=True)
class WordErrors:
    """Of ``said`` words, ``lost`` are missing; ``errors`` are all that are missing, wrong or too many."""

    said: int = 0
    errors: int = 0
    lost: int = 0

    def __add__(self, other: WordErrors) -> WordErrors:
        return WordErrors(self.said + other.said, self.errors + other.errors, self.lost + other.lost)


def compare(said: str, heard: str) -> WordErrors:
    """Fewest word edits (Levenshtein 1966) after spelling, punctuation and digits are made alike."""
    truth, found = normalised(said), normalised(heard)
    # (errors, lost) of the prefixes; fewer errors first, then fewer lost words
    row = [(count, 0) for count in range(len(found) + 1)]
    for done, word in enumerate(truth, 1):
        before, row = row, [(done, done)]
        for place, other in enumerate(found, 1):
            same = word == other
            row.append(
                min(
                    (before[place - 1][0] + (not same), before[place - 1][1]),
                    (before[place][0] + 1, before[place][1] + 1),
                    (row[-1][0] + 1, row[-1][1]),
                )
            )
    errors, lost = row[-1]
    return WordErrors(len(truth), errors, lost)


def normalised(text: str) -> list[str]:
    """Lower case, no punctuation or fillers, every digit a word of its own: "Call 555-01!" is call 5 5 5 0 1."""
    words: list[str] = []
    for word in re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?|\d", text.lower()):
        if word not in _FILLERS:
            words += _DIGITS.get(word, word).split()
    return words
