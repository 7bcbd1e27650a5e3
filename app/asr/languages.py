"""Which language was spoken, given what the model thinks and what this speaker spoke before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_TELLING_S = 1.2
"""Shorter sound, pauses around it included, says little about the language: "no" and "ok" are of all of them."""
_SURE_SHARE = 0.5
_CLEARLY = 4.0
"""Another language than the expected one must be as sure as that and this many times as likely. On a second and
more of speech in seven languages the right one had 0.6 to 1.0, on speech that it misjudged Whisper base gave no
other language over 0.3."""


def settled_language(allowed: Sequence[str], expected: str, seconds: float) -> str:
    """The language that needs no look at the sound; "" where one is needed."""
    if len(allowed) == 1:
        return allowed[0]
    may_be = expected if not allowed or expected in allowed else ""
    return may_be if seconds < _TELLING_S else ""


def choose_language(shares: Mapping[str, float], allowed: Sequence[str], expected: str) -> str:
    """The ISO 639-1 code to transcribe with: one of ``allowed`` (of all, if that is empty), whatever was heard.

    ``shares`` are the model's probabilities of all its languages; ``expected`` was spoken last, "" if unknown.
    """
    if allowed and expected not in allowed:
        expected = ""
    candidates = {code: share for code, share in shares.items() if not allowed or code in allowed}
    if not candidates:
        return expected or next(iter(allowed), "en")
    likeliest = max(candidates, key=lambda code: candidates[code])
    share = candidates[likeliest]
    clearly = share >= _SURE_SHARE and share > _CLEARLY * candidates.get(expected, 0.0)
    return expected if expected and not clearly else likeliest
