"""Text that remembers where in the original it came from, through any number of rewrites."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

Rewrite: TypeAlias = Callable[[re.Match[str]], str | None]
"""Gives the replacement of a match, or None to leave it as it is."""


@dataclass(frozen=True, slots=True)
class Tracked:
    """``text`` with, per character, the stretch ``[starts[i], ends[i])`` of the original behind it.

    A rewritten stretch counts as heard only with its last word: of "$3.50" read as "three dollars and
    fifty cents" the first four words lie at its start, "cents" covers it. Both lists never fall.
    """

    text: str
    starts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, text: str) -> Tracked:
        return cls(text, list(range(len(text))), list(range(1, len(text) + 1)))

    def sub(self, pattern: re.Pattern[str], rewrite: Rewrite | str) -> Tracked:
        """Replace every match, like ``re.sub`` (a string is taken literally). Keeps what does not change."""
        out: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        done = 0
        for match in pattern.finditer(self.text):
            replacement = rewrite if isinstance(rewrite, str) else rewrite(match)
            if replacement is None or replacement == match.group():
                continue
            begin, end = match.span()
            self._copy(done, begin, out, starts, ends)
            self._insert(begin, end, replacement, out, starts, ends)
            done = end
        if not out and not done:
            return self
        self._copy(done, len(self.text), out, starts, ends)
        return Tracked("".join(out), starts, ends)

    def _copy(self, begin: int, end: int, out: list[str], starts: list[int], ends: list[int]) -> None:
        out.append(self.text[begin:end])
        starts += self.starts[begin:end]
        ends += self.ends[begin:end]

    def _insert(
        self, begin: int, end: int, replacement: str, out: list[str], starts: list[int], ends: list[int]
    ) -> None:
        # What surrounds the change word for word stays tied to its own place: of "[text](url)" only "text".
        original = self.text[begin:end]
        inner = original.find(replacement) if replacement else -1
        if inner >= 0:
            self._copy(begin + inner, begin + inner + len(replacement), out, starts, ends)
            return
        first = self.starts[begin] if end > begin else (self.ends[begin - 1] if begin else 0)
        last = self.ends[end - 1] if end > begin else first
        head = len(replacement.rstrip()[: replacement.rstrip().rfind(" ") + 1]) if replacement.strip() else 0
        out.append(replacement)
        starts += [first] * len(replacement)
        ends += [first] * head + [last] * (len(replacement) - head)

    def strip(self) -> Tracked:
        text = self.text.strip()
        begin = self.text.find(text) if text else 0
        end = begin + len(text)
        return Tracked(text, self.starts[begin:end], self.ends[begin:end])


def word_ends(spoken: Tracked, raw: str) -> tuple[int, ...]:
    """Per whitespace-separated word of ``spoken``: how far into ``raw`` one has heard with it.

    A word's end takes in the marks that hang on it ("bold**,"), never what the next word stands for.
    The last word covers all of ``raw``. Never falls.
    """
    words = [match.span() for match in re.finditer(r"\S+", spoken.text)]
    if not words:
        return ()
    ends: list[int] = []
    heard = 0
    for (_, end), (following, _) in pairwise(words):
        heard = max(heard, spoken.ends[end - 1])
        limit = spoken.starts[following]
        while heard < limit and not raw[heard].isspace():
            heard += 1
        ends.append(heard)
    return (*ends, len(raw))
