"""From the turns of one run to its figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from app.bench.voice.run import Measured
from app.bench.voice.turn import Turn

_WORD = re.compile(r"[\w']+")
REMAINDER = "network_and_rest"
"""What the caller waited beyond the server's own voice-to-voice time: packets, encoding, and a late caller."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Over all turns that have the figure, ms."""

    count: int
    p50: float
    p95: float
    max: float


@dataclass(frozen=True, slots=True)
class Figures:
    """One row of the table."""

    sessions: int
    turns: int
    answered: int
    cut_ins: int
    """Turns in which the assistant spoke before the question was over."""
    word_error_rate: float
    """Of all questions, 0 to 1: whether they were understood."""
    voice_to_voice_ms: Spread | None
    waterfall_ms: dict[str, float]
    """Medians of the server's own stages, and the remainder."""
    early_ms: Spread | None
    """What replies begun before the turn was over won, over those that won anything."""
    early_wasted_tokens: float
    gaps: dict[str, int]
    """Audible interruptions inside replies, by kind."""
    longest_gap_ms: float
    stops: int
    stops_obeyed: int
    ducked_ms: Spread | None
    silent_ms: Spread | None
    notices: dict[str, int]
    errors: dict[str, int]


def figures(measured: Measured) -> Figures:
    """Summarise a run; figures that no turn has are None."""
    turns = measured.outcome.turns
    stops = [turn.stop for turn in turns if turn.stop is not None]
    gaps = [gap for turn in turns for gap in turn.gaps]
    early = [turn.early for turn in turns if turn.early]
    return Figures(
        sessions=measured.sessions,
        turns=measured.outcome.planned_turns,
        answered=sum(turn.answered for turn in turns),
        cut_ins=sum(turn.cut_in for turn in turns),
        word_error_rate=word_error_rate([(turn.asked, turn.recognised) for turn in turns]),
        voice_to_voice_ms=spread(turn.voice_to_voice_ms for turn in turns if turn.answered),
        waterfall_ms=waterfall(turns),
        early_ms=spread(ms for one in early if (ms := one.get("ms", 0.0)) > 0),
        early_wasted_tokens=float(sum(one.get("wasted_tokens", 0) for one in early)),
        gaps=dict(Counter(gap.kind for gap in gaps)),
        longest_gap_ms=max((gap.ms for gap in gaps), default=0.0),
        stops=len(stops),
        stops_obeyed=sum(stop.obeyed for stop in stops),
        ducked_ms=spread(stop.ducked_ms for stop in stops),
        silent_ms=spread(stop.silent_ms for stop in stops),
        notices=dict(Counter(code for turn in turns for code in turn.notices)),
        errors=dict(Counter(code for turn in turns for code in turn.errors)),
    )


def spread(values: Iterable[float | None]) -> Spread | None:
    """None if there are no values."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    p50, p95, most = (float(np.percentile(present, percent)) for percent in (50, 95, 100))
    return Spread(len(present), p50, p95, most)


def waterfall(turns: Sequence[Turn]) -> dict[str, float]:
    """The median of each stage over the answered turns that tell it, in the server's order."""
    told = [turn for turn in turns if turn.answered and turn.timings_ms]
    stages = dict.fromkeys(stage for turn in told for stage in turn.timings_ms)
    medians = {
        stage: float(np.median([turn.timings_ms[stage] for turn in told if stage in turn.timings_ms]))
        for stage in stages
    }
    rest = [
        turn.voice_to_voice_ms - turn.timings_ms["voice_to_voice"]
        for turn in told
        if turn.voice_to_voice_ms is not None and "voice_to_voice" in turn.timings_ms
    ]
    return medians | ({REMAINDER: float(np.median(rest))} if rest else {})


def word_error_rate(pairs: Iterable[tuple[str, str]]) -> float:
    """Substitutions, insertions and deletions per word of the reference, over all (reference, recognised) pairs."""
    wrong = words = 0
    for reference, recognised in pairs:
        expected, found = (_WORD.findall(text.lower()) for text in (reference, recognised))
        wrong += _edits(expected, found)
        words += len(expected)
    return wrong / words if words else 0.0


def _edits(expected: Sequence[str], found: Sequence[str]) -> int:
    """Levenshtein distance in words (Wagner and Fischer 1974)."""
    row = list(range(len(found) + 1))
    for at, word in enumerate(expected, 1):
        diagonal, row[0] = row[0], at
        for column, other in enumerate(found, 1):
            diagonal, row[column] = row[column], min(diagonal + (word != other), row[column] + 1, row[column - 1] + 1)
    return row[-1]
