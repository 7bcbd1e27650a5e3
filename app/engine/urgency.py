"""How soon a reply needs its next token: what decides who is admitted, prefilled, displaced and skipped.

A reply that is spoken has until the speech made so far has been heard; one that is read has a little
patience. Moments are absolute and stand still while a reply is kept waiting, whereas newcomers get
later ones: so whoever waits long enough comes first, and nobody starves.
"""

from __future__ import annotations

from app.engine.messages import Priority
from app.engine.sequence import Sequence

SPEECH_S_PER_TOKEN = 0.25
"""English read aloud at 180 words a minute, with 1.33 tokens a word."""

FIRST_CLAUSE_TOKENS = 8
"""Before so many tokens there is no clause that could be spoken."""

_FIRST_CLAUSE_S = 0.3
"""Who is spoken to waits for the beginning of the answer no longer than in a lively conversation."""
_FIRST_TEXT_S = 1.0
_TEXT_PAUSE_S = 3.0
"""A pause that a reader forgives, having the text so far."""

_HEAD_START_S: dict[Priority, float] = {"vip": 30.0, "normal": 0.0, "low": -20.0}
"""A low request that has waited 20 s longer than a normal one stands beside it."""

AHEAD_S = 2.0
"""Speech that lasts longer than this may wait while others are in need."""

DISPLACE_S = 2.0
"""How much sooner a newcomer must need a token than the one whose place it takes."""


def due_s(sequence: Sequence) -> float:
    """The moment by which a reply needs its next token."""
    if sequence.reply_tokens < FIRST_CLAUSE_TOKENS and (sequence.spoken or not sequence.first_token_s):
        due = sequence.arrived_s + _first_s(sequence)
    elif sequence.spoken:
        due = sequence.first_token_s + sequence.reply_tokens * SPEECH_S_PER_TOKEN
    else:
        due = sequence.last_token_s + _TEXT_PAUSE_S
    return due - _HEAD_START_S[sequence.priority]


def place_s(sequence: Sequence) -> float:
    """The moment that a queued reply is sorted by. One that is read keeps its place when it is sent back."""
    if sequence.spoken:
        return due_s(sequence)
    return sequence.arrived_s + _FIRST_TEXT_S - _HEAD_START_S[sequence.priority]


def claim_s(sequence: Sequence, now_s: float) -> float:
    """How soon a queued reply may say it needs a token when it wants another's place.

    No sooner than a newcomer of its kind: having waited moves it forward in the queue, but gives no
    right to take from others, or replies that are all late would take turns at computing again.
    """
    least = _first_s(sequence) - _HEAD_START_S[sequence.priority]
    return max(least, due_s(sequence) - now_s)


def _first_s(sequence: Sequence) -> float:
    return _FIRST_CLAUSE_S if sequence.spoken else _FIRST_TEXT_S
