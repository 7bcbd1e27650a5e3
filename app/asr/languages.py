"""Which language was spoken, given what the model thinks and what this speaker spoke before."""

from __future__ import annotations

from collections.abc import Collection, Mapping

_TELLING_S = 1.0
"""Shorter sound says nothing about the language: "no", "ok" and "mm-hm" are of all of them."""
_CLEARLY = 4.0
"""Another language than the expected one must be this many times as likely."""


def choose_language(
    probabilities: Mapping[str, float], *, allowed: Collection[str], expected: str, seconds: float
) -> str:
    """The ISO 639-1 code to transcribe with, always one of ``allowed`` (all of the model's, if empty).

    ``probabilities`` are the model's for ``seconds`` of sound; ``expected`` is what was spoken last, "" if unknown.
    """
    candidates = {code: share for code, share in probabilities.items() if not allowed or code in allowed}
    if not candidates:
        return next(iter(allowed), "en")
    likeliest = max(candidates, key=lambda code: candidates[code])
    if expected not in candidates:
        return likeliest
    clearly = candidates[likeliest] > _CLEARLY * candidates[expected]
    return likeliest if clearly and seconds >= _TELLING_S else expected
