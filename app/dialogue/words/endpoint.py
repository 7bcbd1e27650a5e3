"""How long a silence ends a turn: as short as the turn model and the words allow."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from app.dialogue.words.plain import FULL_STOPS, QUESTION_MARKS
from app.dialogue.words.unfinished import Ending, ending

_SURE = 0.75
"""How far from the threshold to 1 a probability must lie to be taken for a yes. Of 110 pauses and ends of synthetic speech
smart-turn gave 0.88 and more to three quarters of the ends, and to pauses hardly ever but after words that sound
unfinished; from 0.5 to 0.88 there were as many pauses as ends."""
_VERY_SURE = 0.9
"""The same where the words are half a sentence: 0.95 with a threshold of 0.5."""
_DOUBT = 0.45
"""With a probability between there and "unfinished", or none, the wait is this share of the way to the worst case:
enough for a pause between two sentences. Most speakers who are given less than half the threshold are done all the same."""
_STEEPNESS = 4
"""Only near 0 the model is as sure of a pause as it is of an end near 1."""
_CLOSING = "\"'”’)」』 "


@dataclass(frozen=True, slots=True)
class Patience:
    """Silences in seconds, counted from the last sample of speech, and the probability that means "finished"."""

    complete_s: float
    """Both the model and the words say that the user is done."""
    unfinished_s: float
    """The model says done, but nobody ends on such words."""
    longest_s: float
    """No silence within a turn is longer."""
    threshold: float


def patience_s(completeness: float | None, words: str | None, patience: Patience) -> float:
    """The silence in seconds that ends the turn, never above ``patience.longest_s``.

    ``completeness`` is the turn model's probability (0..1), None without a verdict; ``words`` is the utterance so
    far, None while it is being recognised: a turn cannot be answered without words. Never rises with ``completeness``.
    """
    longest = patience.longest_s
    if words is None:
        return longest
    unfinished = min(patience.unfinished_s, longest)
    complete = min(patience.complete_s, unfinished)
    doubt = _doubt(completeness, patience.threshold)
    # A doubtful verdict is stretched between the silence it would be at best and the one it would be at worst.
    ended = words.rstrip(_CLOSING)
    if (end := ending(words)) is not Ending.WHOLE:
        best, worst = unfinished, longest
        if end is Ending.HALF and _exceeds(completeness, _VERY_SURE, patience.threshold):
            best = complete
    elif ended.endswith(QUESTION_MARKS):
        best, worst = complete, (complete + unfinished) / 2  # such a question is hardly ever gone on with
    elif ended.endswith(FULL_STOPS) or ended[-1:].isdigit():  # numbers come without one
        best, worst = complete, unfinished  # recognisers write full stops too easily to wait less
    else:
        best, worst = complete, longest
    return best + (worst - best) * doubt


def _exceeds(completeness: float | None, share: float, threshold: float) -> bool:
    """Whether ``completeness`` lies so far from the threshold to 1; never true of none or NaN."""
    return completeness is not None and completeness >= threshold + (1.0 - threshold) * share


def _doubt(completeness: float | None, threshold: float) -> float:
    """0: surely finished; 1: surely not. Never rises with ``completeness``."""
    if completeness is None or isnan(completeness):
        return _DOUBT
    if _exceeds(completeness, _SURE, threshold):
        return 0.0
    missing = max(0.0, 1.0 - completeness / threshold) if threshold > 0.0 else 0.0
    return _DOUBT + (1.0 - _DOUBT) * min(1.0, missing) ** _STEEPNESS
