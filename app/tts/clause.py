"""The unit in which a reply is spoken."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clause:
    """A stretch of the reply that is synthesised at once.

    ``raw_start`` and ``raw_end`` are character offsets into the reply as the LLM wrote it (clauses
    tile the reply without gaps); ``spoken`` is what the voice is given. ``word_ends`` has one entry per
    whitespace-separated word of ``spoken``: the offset in the reply up to which the text has been
    heard once that word has; the last entry equals ``raw_end``. The last clause
    of a reply may be silent (an emoji, code): empty ``spoken``, no ``word_ends``, heard with the one before it.
    """

    raw_start: int
    raw_end: int
    spoken: str
    word_ends: tuple[int, ...]
