"""The record of one session: token ids, and where in the rendered conversation each of them ends.

A turn arrives as the whole conversation as it was heard. Its rendering is compared with the
record character by character; whatever agrees keeps its ids, and only the rest is tokenised.
So a reply is never tokenised again, and a reply that was cut costs only its unheard tail.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

TEMPLATE_MARK = "\ufdd0"
CONTENT_MARK = "\ufdd1"
"""Begin each piece of a rendering, so that a control token typed by a user never equals a real one.
Both are noncharacters, which ``prompt.py`` keeps out of contents."""

_MAX_BACK_OFF = 4
"""Tokens given up at a cut inside a word, so that the rest of the word is tokenised as a whole."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """``ends[i]`` is the offset in ``text`` (marks included) after the last character that ``ids[i]`` touches."""

    text: str = ""
    ids: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.ends):
            raise ValueError("a ledger needs one end for each token")

    def agreement(self, rendered: str) -> int:
        """How many tokens from the start stay valid for ``rendered``."""
        length = common_prefix(self.text, rendered)
        kept = bisect_right(self.ends, length)
        cut = self.ends[kept - 1] if kept else 0
        for _ in range(_MAX_BACK_OFF):
            if not kept or not _inside_word(rendered, cut):
                break
            kept -= 1
            cut = self.ends[kept - 1] if kept else 0
        return kept

    def cut_offset(self, kept: int) -> int:
        """Offset in the text after the first ``kept`` tokens."""
        return self.ends[kept - 1] if kept else 0

    def first(self, kept: int) -> Ledger:
        """The ledger cut after ``kept`` tokens."""
        return Ledger(self.text[: self.cut_offset(kept)], self.ids[:kept], self.ends[:kept])

    def with_reply(self, ids: Sequence[int], ends: Sequence[int], text: str) -> Ledger:
        """The ledger after the model added ``ids``; ``ends`` count from the start of the reply's ``text``."""
        base = len(self.text) + len(CONTENT_MARK)
        return Ledger(
            text=self.text + CONTENT_MARK + text,
            ids=self.ids + tuple(ids),
            ends=self.ends + tuple(base + end for end in ends),
        )


def common_prefix(left: str, right: str) -> int:
    """Length of the longest common start, found by halving: comparing slices is done in C."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def piece_ends(offsets: Sequence[tuple[int, int]], length: int) -> list[int]:
    """Ends of a piece's tokens from the tokeniser's offsets, never too small.

    Offsets may leave out white space that belongs to a token; so a token ends no earlier than
    its successor begins, and the last one ends with the piece.
    """
    ends: list[int] = []
    latest = 0
    for index, (_, end) in enumerate(offsets):
        following = offsets[index + 1][0] if index + 1 < len(offsets) else length
        latest = min(length, max(latest, end, following))
        ends.append(latest)
    return ends


def _inside_word(text: str, cut: int) -> bool:
    return 0 < cut < len(text) and text[cut - 1].isalnum() and text[cut].isalnum()
