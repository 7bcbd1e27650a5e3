"""All verdicts together: the figures by which turn-taking is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import ceil

from app.bench.turns.cases import Must
from app.bench.turns.verdict import Fault, Verdict
from app.bench.turns.words import WordErrors

_UNCLEAN = frozenset({"in noise"})
"""Whose words are not held against the recogniser."""


@dataclass(frozen=True, slots=True)
class Share:
    """``count`` of ``among``."""

    count: int
    among: int

    @property
    def share(self) -> float:
        return self.count / self.among if self.among else 0.0


@dataclass(frozen=True, slots=True)
class Spread:
    """Of ``count`` figures, ms; nearest rank."""

    count: int
    p50: float
    p95: float
    worst: float


@dataclass(frozen=True, slots=True)
class Summary:
    """``false_cut_ins`` are turns that were answered into or split; ``early_turns`` those with an early reply, of those
    whose traces tell."""

    cases: int
    passed: int
    endpoint_ms: Spread | None
    told_ms: Spread | None
    voice_to_voice_ms: Spread | None
    false_cut_ins: Share
    cut_ins: int
    split_turns: int
    missed_ends: Share
    unanswered: Share
    false_interruptions: Share
    missed_interruptions: Share
    hallucinated_turns: Share
    stop_ducked_ms: Spread | None
    stop_silent_ms: Spread | None
    held_ms: Spread | None
    words: WordErrors
    early_turns: Share
    early_ms: Spread | None
    wasted_tokens: int
    lag_ms: Spread | None


def summarise(verdicts: Sequence[Verdict]) -> Summary:
    turns = [verdict for verdict in verdicts if verdict.wants_answer]
    kept = [verdict for verdict in verdicts if verdict.must is Must.PLAY_ON]
    stops = [verdict for verdict in verdicts if verdict.must is Must.STOP]
    early = [verdict.early_ms for verdict in turns if verdict.early_ms is not None]
    clean = [verdict.words for verdict in verdicts if verdict.words and verdict.category not in _UNCLEAN]
    return Summary(
        cases=len(verdicts),
        passed=sum(verdict.passed for verdict in verdicts),
        endpoint_ms=spread([verdict.endpoint_ms for verdict in turns]),
        told_ms=spread([verdict.told_ms for verdict in turns]),
        voice_to_voice_ms=spread([verdict.voice_to_voice_ms for verdict in turns]),
        false_cut_ins=_share(turns, Fault.CUT_IN, Fault.SPLIT),
        cut_ins=_share(turns, Fault.CUT_IN).count,
        split_turns=_share(turns, Fault.SPLIT).count,
        missed_ends=_share(turns, Fault.MISSED_END),
        unanswered=_share(turns, Fault.UNANSWERED),
        false_interruptions=Share(_count(verdicts, Fault.FALSE_INTERRUPTION), len(kept)),
        missed_interruptions=_share(stops, Fault.MISSED_INTERRUPTION),
        hallucinated_turns=_share(verdicts, Fault.HALLUCINATED),
        stop_ducked_ms=spread([verdict.ducked_ms for verdict in stops]),
        stop_silent_ms=spread([verdict.silent_ms for verdict in stops]),
        held_ms=spread([verdict.held_ms for verdict in kept]),
        words=reduce(WordErrors.__add__, clean, WordErrors()),
        early_turns=Share(sum(ms > 0 for ms in early), len(early)),
        early_ms=spread([ms for ms in early if ms > 0]),
        wasted_tokens=sum(verdict.wasted_tokens or 0 for verdict in verdicts),
        lag_ms=spread([verdict.lag_ms for verdict in verdicts]),
    )


def by_category(verdicts: Sequence[Verdict]) -> dict[str, Summary]:
    """In the order of the catalogue."""
    categories = dict.fromkeys(verdict.category for verdict in verdicts)
    return {name: summarise([verdict for verdict in verdicts if verdict.category == name]) for name in categories}


def spread(figures: Sequence[float | None]) -> Spread | None:
    """None where there is no figure."""
    known = sorted(figure for figure in figures if figure is not None)
    if not known:
        return None
    return Spread(len(known), _rank(known, 0.5), _rank(known, 0.95), known[-1])


def _rank(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def _count(verdicts: Sequence[Verdict], *faults: Fault) -> int:
    return sum(verdict.has(*faults) for verdict in verdicts)


def _share(verdicts: Sequence[Verdict], *faults: Fault) -> Share:
    return Share(_count(verdicts, *faults), len(verdicts))
