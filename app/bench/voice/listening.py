"""Measures on what one caller received. Pure: arrays in, moments and figures out.

All moments are seconds of the caller's clock: a sample has arrived when the packet that holds it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.bench.voice.call import Arrivals
from app.bench.voice.packets import PACKET_S, decode, rms_dbfs

Floats: TypeAlias = NDArray[np.float64]

SOUND_LEVEL = 104
"""A sample beyond this (-50 dBFS) can be heard: the reply has begun."""
_INAUDIBLE_LEVEL = 33
"""Below this (-60 dBFS) all of a packet is silence: encoders let digital silence fade in over some packets."""
DUCK_DB = 15.0
_BEFORE_S = 1.0
"""How far back the level is taken that a duck is compared with."""
_GAP_S = 0.06
"""Shorter interruptions are what a listener's jitter buffer is for."""
_LONGEST_PAUSE_S = 0.24
"""What the voices themselves leave between two sentences (app/tts/pool.py)."""


@dataclass(frozen=True, slots=True)
class Heard:
    """The packets of one call, decoded. All arrays are ``[n]``, in the order of their timestamps."""

    at_s: Floats
    timestamps: NDArray[np.int64]
    """Samples at 48 kHz."""
    peak: NDArray[np.int64]
    """Loudest sample."""
    level_dbfs: Floats
    """RMS over the packet's 20 ms."""

    @classmethod
    def of(cls, arrivals: Arrivals) -> Heard:
        """Decodes everything, in the order in which it was sent."""
        order = np.argsort(np.array(arrivals.timestamps, np.int64), kind="stable")
        sounds = decode(arrivals.payloads[at] for at in order)
        peak = np.array([int(np.abs(sound.astype(np.int32)).max(initial=0)) for sound in sounds], np.int64)
        at_s = np.array(arrivals.at_s, np.float64)
        timestamps = np.array(arrivals.timestamps, np.int64)
        return cls(at_s[order], timestamps[order], peak, rms_dbfs(sounds))

    def between(self, start_s: float, end_s: float) -> Heard:
        """The packets that arrived in that time."""
        those = (self.at_s >= start_s) & (self.at_s <= end_s)
        return Heard(self.at_s[those], self.timestamps[those], self.peak[those], self.level_dbfs[those])

    @property
    def sounding(self) -> NDArray[np.bool_]:
        return self.peak >= SOUND_LEVEL


@dataclass(frozen=True, slots=True)
class Gap:
    """An interruption inside a reply."""

    at_s: float
    ms: float
    kind: Literal["late", "dry"]
    """``late``: nothing arrived in time to be played; ``dry``: silence did, longer than any pause in speech."""


def onset(heard: Heard, after_s: float, before_s: float) -> float | None:
    """When the first audible sample arrived in that time."""
    part = heard.between(after_s, before_s)
    first = np.flatnonzero(part.sounding)
    return float(part.at_s[first[0]]) if len(first) else None


def last_sound(heard: Heard, after_s: float, before_s: float) -> float | None:
    """When the last audible sample arrived in that time."""
    part = heard.between(after_s, before_s)
    those = np.flatnonzero(part.sounding)
    return float(part.at_s[those[-1]]) if len(those) else None


def gaps(heard: Heard, start_s: float, end_s: float) -> list[Gap]:
    """Interruptions of more than 60 ms between the first and the last audible sample of that time.

    The listener has no jitter buffer: each packet is played when it arrives, or when the one before has been played.
    Silence that a voice without work puts between two clauses cannot be told from the voice's own pauses here, unless
    it makes them more than 60 ms longer than the longest of these; the server counts such underruns exactly.
    """
    part = heard.between(start_s, end_s)
    audible = np.flatnonzero(part.sounding)
    if len(audible) < 2:
        return []
    chosen = slice(audible[0], audible[-1] + 1)
    at_s = part.at_s[chosen]
    return sorted([*_late(at_s), *_dry(at_s, part.peak[chosen] < _INAUDIBLE_LEVEL)], key=lambda gap: gap.at_s)


def _late(at_s: Floats) -> list[Gap]:
    found: list[Gap] = []
    played_until_s = float(at_s[0])
    for moment in at_s:
        if (length := float(moment) - played_until_s) > _GAP_S:
            found.append(Gap(played_until_s, length * 1000, "late"))
        played_until_s = max(played_until_s, float(moment)) + PACKET_S
    return found


def _dry(at_s: Floats, silent: NDArray[np.bool_]) -> list[Gap]:
    found: list[Gap] = []
    began: int | None = None
    for at, is_silent in enumerate(silent):
        if is_silent and began is None:
            began = at
        elif not is_silent and began is not None:
            length = (at - began) * PACKET_S - _LONGEST_PAUSE_S
            if length > _GAP_S:
                found.append(Gap(float(at_s[began]), length * 1000, "dry"))
            began = None
    return found


@dataclass(frozen=True, slots=True)
class Yielding:
    """How the assistant gave way to someone who spoke over it, in ms from their first sample."""

    ducked_ms: float | None
    """Until everything that followed was at least 15 dB quieter than before."""
    silent_ms: float | None
    """Until nothing audible followed."""


def yielding(heard: Heard, said_s: float, until_s: float) -> Yielding | None:
    """What a reply did between ``said_s`` and ``until_s`` (when it was over); None if it was not audible before.

    The level before is the 95th percentile over the 20 ms frames of the second before: speech has pauses, so the
    loud frames are compared, and only a frame after which no louder one follows counts as ducked.
    """
    before = heard.between(said_s - _BEFORE_S, said_s)
    if not before.sounding.any():
        return None
    loud_dbfs = float(np.percentile(before.level_dbfs[before.sounding], 95))
    after = heard.between(said_s, until_s)
    return Yielding(
        _from_then_on(after, after.level_dbfs <= loud_dbfs - DUCK_DB, said_s),
        _from_then_on(after, ~after.sounding, said_s),
    )


def _from_then_on(part: Heard, quiet: NDArray[np.bool_], said_s: float) -> float | None:
    """ms until the first packet from which on all are ``quiet``; None if the last one is not."""
    loud = np.flatnonzero(~quiet)
    first = int(loud[-1]) + 1 if len(loud) else 0
    return float(part.at_s[first] - said_s) * 1000 if first < len(part.at_s) else None
