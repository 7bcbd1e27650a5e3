"""What a session keeps of the turn that is under way: both sides' sound, events, and what each stage answered."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.telemetry.turns.track import Track

if TYPE_CHECKING:
    from app.telemetry.turns.kept import KeptTurns

Side: TypeAlias = Literal["server", "client"]
Ending: TypeAlias = Literal["", "done", "failed", "cut"]

INPUT_RATE_HZ, OUTPUT_RATE_HZ = 16_000, 48_000
_TAIL_S = 1.0
"""A turn goes on for this long after its reply: the interruption that ended it, the apology for a failure."""
_LEAD_S = 1.0
"""And begins this long before anything is noticed of it: the pre-roll, and what detection takes."""
_NOTE_BYTES = 300
"""What an event takes without its texts, roughly."""


@dataclass(slots=True)
class StageCall:
    """One piece of work of a stage: what it was asked, and each answer with its time. Times by the session's clock."""

    stage: Literal["asr", "turn", "llm", "tts", "phrase"]
    at_s: float
    asked: Mapping[str, Any]
    answers: list[tuple[float, Any]] = field(default_factory=list)
    """Of ``tts`` and ``phrase``: int16 sound; else plain data."""
    ended_s: float | None = None
    ending: Ending = ""
    """"cut": nobody wanted the rest."""
    error: Mapping[str, str] | None = None
    rate_hz: int = 0
    forgotten: bool = False
    """It is of a turn that is complete, or of none: what comes of it is no longer kept."""


@dataclass(frozen=True, slots=True)
class Note:
    """A wire event with its time."""

    at_s: float
    side: Side
    event: Mapping[str, Any]
    nbytes: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One that is complete. Times by the session's clock."""

    response_id: str
    began_s: float
    done_s: float
    """When its reply was over; what is after that is the tail."""
    before_s: float
    """When the reply before it was over."""
    describe: Callable[[], Mapping[str, Any]]
    """Tells, when it is asked, what else is needed to run it again."""
    nbytes: int
    """What ``describe`` holds on to."""


class Tape:
    """Of one session; ``kept`` gets each turn that is complete, and bounds the memory of all.

    All calls belong on the session's event loop. ``hear`` and ``say`` copy a frame and do nothing else.
    """

    def __init__(self, kept: KeptTurns, token: str, clock: Callable[[], float]) -> None:
        """``token`` is the session's secret by which its turns are found."""
        self.token = token
        self.heard = Track(INPUT_RATE_HZ)
        self.said = Track(OUTPUT_RATE_HZ)
        self.notes: deque[Note] = deque()
        self.calls: deque[StageCall] = deque()
        self.nbytes = 0
        self.cut_s = float("-inf")
        """Nothing is left from before this moment, because memory was short."""
        self._kept = kept
        self._clock = clock
        self._opened_s = clock()
        self._began_s: float | None = None
        self._done_s = float("-inf")
        """When the latest reply was over."""
        self._before_s = self._done_s
        """And the one before it."""
        self._tail: tuple[float, Callable[[], None]] | None = None
        self._closed = False

    # Sound, events and answers as they come

    def hear(self, pcm: NDArray[np.int16]) -> None:
        """What came from the client: int16 at 16 kHz."""
        if self._closed:
            return
        now_s = self._clock()
        self._grow(self.heard.push(pcm, now_s))
        if self._tail is not None:
            if now_s >= self._tail[0]:
                self.finish()
        elif self._began_s is None:
            self._forget_before(now_s - _LEAD_S)

    def say(self, pcm: NDArray[np.int16]) -> None:
        """What went to the client: int16 at 48 kHz."""
        if not self._closed:
            self._grow(self.said.push(pcm, self._clock()))

    def note(self, side: Side, event: Mapping[str, Any]) -> None:
        if self._closed:
            return
        nbytes = _NOTE_BYTES + _text_bytes(event)
        self.notes.append(Note(self._clock(), side, event, nbytes))
        self._grow(nbytes)

    def call(self, stage: Literal["asr", "turn", "llm", "tts", "phrase"], asked: Mapping[str, Any]) -> StageCall:
        """A stage has been asked for something."""
        call = StageCall(stage, self._clock(), asked, forgotten=self._closed)
        if self._closed:
            return call
        self.calls.append(call)
        self._grow(_NOTE_BYTES + _text_bytes(asked))
        return call

    def answer(self, call: StageCall, answer: Any) -> None:
        if call.forgotten:
            return
        call.answers.append((self._clock(), answer))
        self._grow(answer.nbytes if isinstance(answer, np.ndarray) else _NOTE_BYTES)

    def end(self, call: StageCall, ending: Ending, error: Mapping[str, str] | None = None) -> None:
        if not call.ending:
            call.ended_s, call.ending, call.error = self._clock(), ending, error

    # Turns

    @property
    def taking(self) -> bool:
        """Something is under way that may become a turn."""
        return self._began_s is not None

    def begin(self, at_s: float | None = None, *, goes_on: bool = False) -> None:
        """Keep everything from shortly before ``at_s`` (now, if None). ``goes_on``: with the turn that has just been
        told to be done, whose reply nobody heard."""
        if goes_on:
            self._done_s = self._before_s
        self._began_s = max(self._opened_s, (self._clock() if at_s is None else at_s) - _LEAD_S)

    def idle(self) -> None:
        """Nothing is under way: what is older than a turn's beginning would be may be forgotten."""
        self._began_s = None

    def turn_done(self, response_id: str, describe: Callable[[], Mapping[str, Any]], nbytes: int) -> None:
        """A reply is over. ``describe`` tells, when it is asked, what else the turn needs to be run again; it holds on
        to ``nbytes``. The caller says next whether another turn is under way already, by ``begin``."""
        self.finish()
        done_s = self._clock()
        began_s = done_s - _LEAD_S if self._began_s is None else self._began_s
        before_s = self._before_s = self._done_s
        self._done_s = done_s
        self._began_s = None

        def keep() -> None:
            self._kept.keep(self, Turn(response_id, began_s, done_s, before_s, describe, nbytes))

        self._tail = (done_s + _TAIL_S, keep)
        self._kept.expect(self, response_id)

    def finish(self) -> None:
        """The turn whose reply is over is complete, tail and all."""
        if self._tail is not None:
            (_, keep), self._tail = self._tail, None
            keep()
            self._forget_before(self._clock() - _LEAD_S if self._began_s is None else self._began_s)

    def close(self) -> None:
        """The session is over. What its client still sends and takes is not kept."""
        self.finish()
        self._closed = True
        self._began_s = None
        for call in self.calls:
            call.forgotten = True
        self.heard.blocks.clear()
        self.said.blocks.clear()
        self.notes.clear()
        self.calls.clear()
        self._shrink(self.nbytes)

    # Memory

    def shed(self) -> bool:
        """Give up the oldest of what is kept; False if there is nothing."""
        if self.heard.blocks or self.said.blocks:
            oldest = min((t for t in (self.heard, self.said) if t.blocks), key=lambda track: track.blocks[0].at_s)
            self.cut_s = oldest.blocks[0].at_s + oldest.blocks[0].fill / oldest.rate_hz
            self._shrink(oldest.forget_oldest())
            self._forget_before(self.cut_s)
        elif self.notes or self.calls:
            self.cut_s = math.nextafter(self._clock(), math.inf)  # what comes this very moment included
            self._forget_before(self.cut_s)
        else:
            return False
        return True

    def _forget_before(self, at_s: float) -> None:
        freed = self.heard.forget_before(at_s) + self.said.forget_before(at_s)
        while self.notes and self.notes[0].at_s < at_s:
            freed += self.notes.popleft().nbytes
        while self.calls and self.calls[0].at_s < at_s:
            call = self.calls.popleft()
            call.forgotten = True
            freed += call_bytes(call)
        self._shrink(freed)

    def _grow(self, nbytes: int) -> None:
        if nbytes:
            self.nbytes += nbytes
            self._kept.grown(self, nbytes)

    def _shrink(self, nbytes: int) -> None:
        self.nbytes -= nbytes
        self._kept.shrunk(nbytes)


def call_bytes(call: StageCall) -> int:
    """What it takes in memory, roughly."""
    answers = sum(a.nbytes if isinstance(a, np.ndarray) else _NOTE_BYTES for _, a in call.answers)
    return _NOTE_BYTES + _text_bytes(call.asked) + answers


def _text_bytes(fields: Any) -> int:
    if isinstance(fields, str):
        return len(fields)
    if isinstance(fields, Mapping):
        return sum(_text_bytes(value) for value in fields.values())
    return sum(_text_bytes(value) for value in fields) if isinstance(fields, list | tuple) else 0
