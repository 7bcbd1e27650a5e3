"""The turns of all sessions that can still be saved: bounded memory, the oldest leave."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.errors import TurnNotKept
from app.telemetry.turns.tape import INPUT_RATE_HZ, OUTPUT_RATE_HZ, Note, StageCall, Tape, Turn, call_bytes
from app.telemetry.turns.track import Block, Sound, sound

_MIB = 2**20
_TURN_SHARE = 4
"""One turn may take this part of the memory; of a longer one the end is kept."""
_KEEP_S = 900.0
"""However much room there is: what was said is not kept for longer."""
_LEFT = 1000
"""Turns that have left are remembered by name, so that the two ways of not being there can be told apart."""


@dataclass(frozen=True, slots=True)
class SavedTurn:
    """Everything about one turn. Times are seconds of its session's clock; ``began_s`` is where the sound begins."""

    response_id: str
    began_s: float
    done_s: float
    """When its reply was over; what is after that is the tail."""
    missing_s: float
    """How much of its beginning was too much for the memory."""
    saved_at: float
    """Unix time."""
    notes: tuple[Note, ...]
    calls: tuple[StageCall, ...]
    describe: Callable[[], Mapping[str, Any]]
    nbytes: int
    _heard: tuple[Block, ...]
    _said: tuple[Block, ...]

    def heard(self) -> Sound:
        """What came from the client, 16 kHz."""
        return sound(self._heard, INPUT_RATE_HZ, self.began_s)

    def said(self) -> Sound:
        """What went to the client, 48 kHz."""
        return sound(self._said, OUTPUT_RATE_HZ, self.began_s)


class KeptTurns:
    """Of all sessions of a process. All calls belong on its event loop."""

    def __init__(self, limit_mb: int, *, keep_s: float = _KEEP_S) -> None:
        """``limit_mb`` is in MiB, of turns that are complete and of those under way; 0 keeps none."""
        self._limit = limit_mb * _MIB
        self._keep_s = keep_s
        self._turns: OrderedDict[tuple[str, str], tuple[float, SavedTurn]] = OrderedDict()
        self._open: dict[tuple[str, str], Tape] = {}
        """Turns whose tail is still being kept."""
        self._left: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """Memory taken by all turns, complete or not; sound that two turns share is counted twice."""
        return self._nbytes

    def tape(self, token: str, clock: Callable[[], float]) -> Tape | None:
        """For a new session; None if nothing is kept."""
        return Tape(self, token, clock) if self._limit else None

    def find(self, token: str, response_id: str) -> SavedTurn:
        """A turn of the session that ``token`` opens. Raises TurnNotKept, which says why it is not there."""
        if not self._limit:
            raise TurnNotKept("This server keeps no turns (server.saved_turns_mb = 0).")
        self._drop_old()
        key = (token, response_id)
        if (tape := self._open.get(key)) is not None:
            tape.finish()
        if (found := self._turns.get(key)) is not None:
            return found[1]
        if key in self._left:
            raise TurnNotKept(
                "That turn is no longer kept: the latest turns of all calls stay for "
                f"{self._keep_s / 60:.0f} minutes, as far as server.saved_turns_mb ({self._limit // _MIB}) has room."
            )
        raise TurnNotKept("There is no such turn in this call: it has no reply of that id, or is still going on.")

    # For tapes

    def expect(self, tape: Tape, response_id: str) -> None:
        """The reply is over; the turn is kept once its tail is, or when it is asked for."""
        self._open[tape.token, response_id] = tape

    def keep(self, tape: Tape, turn: Turn) -> None:
        key = (tape.token, turn.response_id)
        self._open.pop(key, None)
        from_s = max(turn.began_s, tape.cut_s)
        notes = tuple(note for note in tape.notes if note.at_s >= from_s)
        calls = tuple(call for call in tape.calls if call.at_s >= from_s and _is_of(turn, call))
        heard, said = (_since(track.blocks, from_s, track.rate_hz) for track in (tape.heard, tape.said))
        nbytes = turn.nbytes + sum(block.nbytes for block in (*heard, *said))
        nbytes += sum(note.nbytes for note in notes) + sum(call_bytes(call) for call in calls)
        saved = SavedTurn(
            turn.response_id,
            began_s=from_s,
            done_s=turn.done_s,
            missing_s=from_s - turn.began_s,
            saved_at=time.time(),
            notes=notes,
            calls=calls,
            describe=turn.describe,
            nbytes=nbytes,
            _heard=heard,
            _said=said,
        )
        loop = asyncio.get_running_loop()
        self._turns[key] = (loop.time(), saved)
        loop.call_later(self._keep_s + 1.0, self._drop_old)
        self._nbytes += nbytes
        self._make_room(tape)

    def grown(self, tape: Tape, nbytes: int) -> None:
        self._nbytes += nbytes
        while tape.nbytes > self._limit // _TURN_SHARE and tape.shed():
            pass
        if self._nbytes > self._limit:
            self._make_room(tape)

    def shrunk(self, nbytes: int) -> None:
        self._nbytes -= nbytes

    def _make_room(self, tape: Tape) -> None:
        while self._nbytes > self._limit and self._turns:
            self._leave(next(iter(self._turns)))
        while self._nbytes > self._limit and tape.shed():
            pass

    def _drop_old(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for key in [key for key, (since_s, _) in self._turns.items() if now_s - since_s >= self._keep_s]:
            self._leave(key)

    def _leave(self, key: tuple[str, str]) -> None:
        _, turn = self._turns.pop(key)
        self._nbytes -= turn.nbytes
        self._left[key] = None
        while len(self._left) > _LEFT:
            self._left.popitem(last=False)


def _is_of(turn: Turn, call: StageCall) -> bool:
    """A user who interrupts is heard in two turns; what is written and spoken belongs to one."""
    return call.stage not in ("llm", "tts") or turn.before_s <= call.at_s <= turn.done_s


def _since(blocks: Iterable[Block], at_s: float, rate_hz: int) -> tuple[Block, ...]:
    """The last one is still being written to: it is copied."""
    *whole, last = [block for block in blocks if block.at_s + block.fill / rate_hz > at_s] or [Block(0, at_s)]
    return (*whole, replace(last, pcm=None if last.pcm is None else last.pcm.copy()))
