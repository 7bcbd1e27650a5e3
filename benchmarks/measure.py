"""From the moments at which text arrived to the figures of a table."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

Figures: TypeAlias = dict[str, float]
"""Name to value; the unit is in the name."""

Spread: TypeAlias = tuple[float, float, float]
"""Lowest, median and highest of the runs."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply as its reader saw it. Moments in seconds of a clock that the replies of a run share."""

    sent_s: float
    stamps_s: tuple[float, ...]
    """When each piece of text arrived; a piece may hold several tokens."""
    done_s: float
    tokens: int
    wanted_tokens: int
    prompt_tokens: int = 0
    cached_tokens: int = 0
    text: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Reply:
        return cls(**{**fields, "stamps_s": tuple(fields["stamps_s"])})

    @property
    def first_s(self) -> float:
        """Until the first piece, or the end of a reply that is not streamed."""
        return (self.stamps_s[0] if self.stamps_s else self.done_s) - self.sent_s

    @property
    def gaps_s(self) -> list[float]:
        return [later - earlier for earlier, later in zip(self.stamps_s, self.stamps_s[1:], strict=False)]


def percentile(values: Sequence[float], percent: float) -> float:
    """Interpolated between neighbours; raises ValueError if there are no values."""
    if not values:
        raise ValueError("no values to take a percentile of")
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def summarise(conversations: Sequence[Sequence[Reply]]) -> Figures:
    """The figures of one run; ``conversations`` holds the replies of each in the order of its turns."""
    replies = [reply for conversation in conversations for reply in conversation]
    began_s = min(reply.sent_s for reply in replies)
    ended_s = max(reply.done_s for reply in replies)
    tokens = sum(reply.tokens for reply in replies)
    latencies = [reply.done_s - reply.sent_s for reply in replies]
    first = [reply.first_s for reply in replies]
    figures = {
        "wall_s": ended_s - began_s,
        "tokens": float(tokens),
        "tok_s": tokens / (ended_s - began_s),
        "ttft_p50_ms": 1000 * percentile(first, 50),
        "ttft_p95_ms": 1000 * percentile(first, 95),
        "latency_mean_s": statistics.fmean(latencies),
        "latency_p50_s": percentile(latencies, 50),
        "latency_p99_s": percentile(latencies, 99),
        "prompt_tokens": float(sum(reply.prompt_tokens for reply in replies)),
        "cached_tokens": float(sum(reply.cached_tokens for reply in replies)),
        "wrong_length": float(sum(reply.tokens != reply.wanted_tokens for reply in replies)),
    }
    gaps = [gap for reply in replies for gap in reply.gaps_s]
    if gaps:
        figures["gap_p50_ms"] = 1000 * percentile(gaps, 50)
        figures["gap_p95_ms"] = 1000 * percentile(gaps, 95)
        figures["gap_max_ms"] = 1000 * max(gaps)
    # Whole replies, because some servers put several tokens into a piece.
    pace = [
        (reply.stamps_s[-1] - reply.stamps_s[0]) / (reply.tokens - 1) for reply in replies if len(reply.stamps_s) > 1
    ]
    if pace:
        figures["token_p50_ms"] = 1000 * percentile(pace, 50)
    turns = max(len(conversation) for conversation in conversations)
    if turns > 1:
        for turn in range(turns):
            of_turn = [conversation[turn].first_s for conversation in conversations if len(conversation) > turn]
            figures[f"ttft_turn{turn + 1}_p50_ms"] = 1000 * percentile(of_turn, 50)
    return figures


def fold(runs: Sequence[Figures]) -> dict[str, Spread]:
    """Lowest, median and highest of each figure that all runs have."""
    names = [name for name in runs[0] if all(name in run for run in runs)]
    folded: dict[str, Spread] = {}
    for name in names:
        values = [run[name] for run in runs]
        folded[name] = (min(values), statistics.median(values), max(values))
    return folded
