"""Words by which someone who waits for an answer makes sure that they are still being listened to."""

from __future__ import annotations

import re

_NUDGES = frozenset(
    {
        "hello",
        "hey",
        "hi",
        "are you there",
        "are you still there",
        "you there",
        "is anyone there",
        "anybody there",
        "can you hear me",
        "hallo",
        "喂",
        "你好",
        "你还在吗",
    }
)


def is_nudge(words: str) -> bool:
    """True for "Hello? Hello?" and its like, false as soon as anything else is said."""
    clauses = [re.sub(r"\s+", " ", clause).strip().lower() for clause in re.split(r"[^\w\s']+", words)]
    said = [clause for clause in clauses if clause]
    return bool(said) and all(clause in _NUDGES for clause in said)
