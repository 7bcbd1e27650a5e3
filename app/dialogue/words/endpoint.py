"""How long a silence ends a turn: as short as the turn model and the words allow."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from app.dialogue.words.unfinished import sounds_unfinished

_NO_VERDICT = 0.5
"""Without a turn model the words decide, from halfway between "surely not finished" and "just finished"."""
_SENTENCE_ENDS = (".", "?", "!", "。", "？", "！")
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
    if completeness is None or isnan(completeness):
        share = _NO_VERDICT
    elif completeness >= patience.threshold:
        share = 1.0
    else:
        share = max(0.0, completeness / patience.threshold)
    # A doubtful verdict is stretched between the silence it would be at best and the one it would be at worst.
    if sounds_unfinished(words):
        best, worst = unfinished, longest
    elif words.rstrip(_CLOSING).endswith(_SENTENCE_ENDS):
        best, worst = complete, unfinished  # recognisers write full stops too easily to wait less
    else:
        best, worst = complete, longest
    return worst + (best - worst) * share
