"""Judges one case: what went wrong in it, and how long things took."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from app.bench.turns.caller import Happening, Log
from app.bench.turns.cases import Hummed, Must, Say
from app.bench.turns.heard import Heard
from app.bench.turns.words import WordErrors, compare

LATE_MS = 1500.0
"""A turn that is declared over later than this after its end was missed."""
STOPPED_MS = 2000.0
"""An assistant that is still heard this long after it was interrupted did not stop."""
_COMPLETED = "conversation.item.input_audio_transcription.completed"
_CLOCKS_APART_MS = 80.0
"""The session's own count of time may differ from the clock by a few frames, no more."""


class Fault(StrEnum):
    CUT_IN = "cut in"
    SPLIT = "split turn"
    MISSED_END = "missed end"
    UNANSWERED = "unanswered"
    FALSE_INTERRUPTION = "false interruption"
    MISSED_INTERRUPTION = "missed interruption"
    HALLUCINATED = "hallucinated turn"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One case judged; ms, None where it does not apply.

    ``endpoint_ms`` is from the last sample of speech to the turn being declared over, ``told_ms`` to the client
    knowing its words; ``ducked_ms`` and ``silent_ms`` are from the first sample of an interruption. ``held_ms`` is how
    long a reply that went on had been kept silent. ``early_ms`` is what an early reply won.
    """

    name: str
    category: str
    must: Must
    wants_answer: bool
    """Whether it holds a turn that wants an answer."""
    faults: tuple[tuple[Fault, str], ...]
    lag_ms: float
    endpoint_ms: float | None = None
    told_ms: float | None = None
    voice_to_voice_ms: float | None = None
    ducked_ms: float | None = None
    silent_ms: float | None = None
    held_ms: float | None = None
    early_ms: float | None = None
    wasted_tokens: int | None = None
    words: WordErrors | None = None
    transcript: str = ""
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.faults

    def has(self, *faults: Fault) -> bool:
        return any(fault in faults for fault, _ in self.faults)


def judge(log: Log, heard: Heard) -> Verdict:
    return _Judge(log, heard).verdict()


class _Judge:
    def __init__(self, log: Log, heard: Heard) -> None:
        self._log = log
        self._heard = heard
        self._case = log.case
        self._faults: list[tuple[Fault, str]] = []
        self._notes: list[str] = []
        # A turn that is gone on with is told again, under the same name, with more words.
        self._items = list({told.event["item_id"]: told for told in self._all(_COMPLETED)}.values())

    def verdict(self) -> Verdict:
        figures: dict[str, Any] = {}
        match self._case.must:
            case Must.ANSWER:
                figures = self._answered(first_reply=1)
            case Must.PLAY_ON:
                figures = self._played_on()
            case Must.STOP:
                figures = self._stopped()
                if self._case.wants_answer:
                    figures |= self._answered(first_reply=2)
            case Must.NOTHING:
                self._nothing()
        transcript = " / ".join(item.event["transcript"] for item in self._items)
        if self._case.words is not None and self._items:
            figures["words"] = compare(self._case.words, transcript)
        return Verdict(
            self._case.name,
            self._case.category,
            self._case.must,
            self._case.wants_answer,
            tuple(self._faults),
            round(self._log.lag_ms, 1),
            transcript=transcript,
            notes=tuple(self._notes),
            **figures,
        )

    def _answered(self, first_reply: int) -> dict[str, Any]:
        """Replies from ``first_reply`` on are answers to the turn."""
        log, heard = self._log, self._heard
        answering = heard.audible & (heard.reply >= first_reply)
        times = log.ticks_s[answering]
        early = times[(times >= log.onset_s) & (times < log.end_s)]
        if len(early):
            self._blame(Fault.CUT_IN, f"was heard {(log.end_s - early[0]) * 1000:.0f} ms before the user had finished")
        turns, invented = self._of_the_turn()
        for item in invented:
            self._blame(Fault.HALLUCINATED, f"{item.event['transcript']!r} was never said")
        if len(turns) > 1:
            self._blame(Fault.SPLIT, f"one turn became {len(turns)}")
        if self._case.whole_reply and self._statuses()[first_reply - 1 :] != ["completed"]:
            self._blame(Fault.FALSE_INTERRUPTION, f"the answer's end: {self._statuses()[first_reply - 1 :]}")
        if not turns:
            self._blame(Fault.MISSED_END, "never declared over")
            return {}
        last = turns[-1]
        told_ms = (last.at_s - log.end_s) * 1000
        turn = self._turn_of(last)
        endpoint_ms = self._endpoint_ms(last, turn)
        if endpoint_ms is None:
            endpoint_ms = told_ms
        elif endpoint_ms > told_ms + _CLOCKS_APART_MS:
            self._notes.append(f"clocks disagree: endpoint {endpoint_ms:.0f} ms, but told after {told_ms:.0f} ms")
        if endpoint_ms > LATE_MS:
            self._blame(Fault.MISSED_END, f"declared over {endpoint_ms:.0f} ms after its end")
        after = times[times >= log.end_s]
        if not len(after):
            self._blame(Fault.UNANSWERED, "no reply was heard")
        if self._all("parley.notice"):
            self._notes.append("Parley spoke a line of its own: no voice to voice")
        figures = {
            "endpoint_ms": round(endpoint_ms, 1),
            "told_ms": round(told_ms, 1),
            "voice_to_voice_ms": round((after[0] - log.end_s) * 1000, 1)
            if len(after) and not len(early) and not self._all("parley.notice")
            else None,
        }
        if turn is not None and (won := turn.event.get("early")):
            figures |= {"early_ms": won.get("ms"), "wasted_tokens": won.get("wasted_tokens")}
        return figures

    def _played_on(self) -> dict[str, Any]:
        spoken = any(isinstance(part, Say | Hummed) for part in self._case.parts)
        statuses = self._statuses()
        if statuses[:1] != ["completed"]:
            self._blame(Fault.FALSE_INTERRUPTION, f"the reply was {statuses[0] if statuses else 'never ended'}")
        for item in self._items:
            kind = Fault.FALSE_INTERRUPTION if spoken else Fault.HALLUCINATED
            self._blame(kind, f"{item.event['transcript']!r} became a turn")
        since = self._tick(self._log.onset_s)
        ducked = self._heard.ducked_tick(since)
        return {
            "held_ms": float(self._heard.held_ms),
            "ducked_ms": None if ducked is None or not self._log.marks else self._since_onset(ducked),
        }

    def _stopped(self) -> dict[str, Any]:
        since = self._tick(self._log.onset_s)
        ducked, silent = self._heard.ducked_tick(since), self._heard.silent_tick(since)
        status = (self._statuses() or ["never ended"])[0]
        silent_ms = None if silent is None else self._since_onset(silent)
        if status != "cancelled":
            self._blame(Fault.MISSED_INTERRUPTION, f"the reply was {status}")
            silent_ms = None
        elif silent_ms is None or silent_ms > STOPPED_MS:
            self._blame(Fault.MISSED_INTERRUPTION, f"still heard after {silent_ms or STOPPED_MS:.0f} ms")
        return {"ducked_ms": None if ducked is None else self._since_onset(ducked), "silent_ms": silent_ms}

    def _nothing(self) -> None:
        for item in self._items:
            self._blame(Fault.HALLUCINATED, f"{item.event['transcript']!r} became a turn")
        for reply in self._all("response.created", "parley.notice"):
            self._blame(Fault.HALLUCINATED, f"{reply.type} {reply.event.get('text', '')}".strip())

    # What the events say

    def _all(self, *types: str) -> list[Happening]:
        return [happening for happening in self._log.happenings if happening.type in types]

    def _statuses(self) -> list[str]:
        return [str(done.event["response"]["status"]) for done in self._all("response.done")]

    def _of_the_turn(self) -> tuple[list[Happening], list[Happening]]:
        """Items that began before the true end, and those that began after it."""
        began = {
            start.event["item_id"]: float(start.event["audio_start_ms"])
            for start in reversed(self._all("input_audio_buffer.speech_started"))
        }
        turns: list[Happening] = []
        invented: list[Happening] = []
        for item in self._items:
            late = began.get(item.event["item_id"], 0.0) >= self._log.end_ms
            (invented if late else turns).append(item)
        return turns, invented

    def _turn_of(self, item: Happening) -> Happening | None:
        same = [turn for turn in self._all("parley.turn") if turn.event.get("item_id") == item.event["item_id"]]
        return same[0] if same else None

    def _endpoint_ms(self, item: Happening, turn: Happening | None) -> float | None:
        """By the session's own clock, from the true end: it counts from where its detector thought that speech ended."""
        stops = [
            float(stop.event["audio_end_ms"])
            for stop in self._all("input_audio_buffer.speech_stopped")
            if stop.event["item_id"] == item.event["item_id"]
        ]
        if turn is None or not stops or "endpoint" not in turn.event["timings_ms"]:
            return None
        return stops[-1] - self._log.end_ms + float(turn.event["timings_ms"]["endpoint"])

    # Time

    def _tick(self, at_s: float) -> int:
        return int(np.searchsorted(self._log.ticks_s, at_s))

    def _since_onset(self, tick: int) -> float:
        return round((float(self._log.ticks_s[tick]) - self._log.onset_s) * 1000, 1)

    def _blame(self, fault: Fault, what: str) -> None:
        self._faults.append((fault, what))
