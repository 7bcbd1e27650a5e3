"""Someone who calls: asks, listens until the answer is over, rests, asks again, and now and then says "stop"."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from app.bench.voice.call import Said, VoiceCall
from app.bench.voice.packets import Spoken
from app.bench.voice.turn import Asked

_REST_S = (0.5, 1.5)
_STOP_AFTER_S = (0.8, 1.4)
"""How much of a reply is heard before it is interrupted."""
_QUIET_S = 0.3
"""Silence after which a listening assistant has nothing more to say."""
_STOP_WAIT_S = 1.2
"""What "stop" does has been done by then."""
_PATIENCE_S = 15.0
"""Without an answer by then the turn is lost."""
_LONGEST_REPLY_S = 60.0
_LOOK_S = 0.03
_SOUNDING_S = 0.05


@dataclass(frozen=True, slots=True)
class Line:
    """Something that can be said."""

    text: str
    voice: str
    speech: Spoken


@dataclass(frozen=True, slots=True)
class Lines:
    """All that can be said."""

    questions: tuple[Line, ...]
    long_questions: tuple[Line, ...]
    stops: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """One turn to come."""

    line: Line
    stop: Line | None
    """What is said over its answer."""


def plan(lines: Lines, turns: int, random: Random) -> list[Planned]:
    """``turns`` questions in an order of chance; a fourth of them, and at least one, has a long answer that is interrupted."""
    stopped = max(1, turns // 4)
    places = {(number + 1) * turns // (stopped + 1) for number in range(stopped)}
    plain, long = _endless(lines.questions, random), _endless(lines.long_questions, random)
    return [
        Planned(long(), random.choice(lines.stops)) if place in places else Planned(plain(), None)
        for place in range(turns)
    ]


def _endless(lines: Sequence[Line], random: Random) -> Callable[[], Line]:
    """All of them before any comes again."""
    left: list[Line] = []

    def draw() -> Line:
        if not left:
            left.extend(random.sample(lines, len(lines)))
        return left.pop()

    return draw


class Caller:
    """One session's conversation over ``call``."""

    def __init__(self, number: int, call: VoiceCall, random: Random, on_turn: Callable[[Asked], None]) -> None:
        self._number = number
        self._call = call
        self._random = random
        self._on_turn = on_turn
        self._loop = asyncio.get_running_loop()
        self._owed: Line | None = None
        """A "stop" for which the answer was too short: it is said over the next one."""

    async def talk(self, planned: Sequence[Planned]) -> list[Asked]:
        """Hold every turn, as long as the server keeps the call."""
        held: list[Asked] = []
        for number, turn in enumerate(planned):
            if self._call.ended:
                break
            held.append(await self._turn(number, turn))
            self._on_turn(held[-1])
            await asyncio.sleep(self._random.uniform(*_REST_S))
        return held

    async def _turn(self, number: int, planned: Planned) -> Asked:
        said = await self._call.microphone.say(planned.line.speech)
        stop = planned.stop or self._owed
        stopped = await self._interrupt(said, stop) if stop is not None else None
        self._owed = stop if stopped is None else None
        while not self._over(said.last_s if stopped is None else stopped.first_s):  # noqa: ASYNC110 - silence is no event
            await asyncio.sleep(_LOOK_S)
        text, voice = planned.line.text, planned.line.voice
        return Asked(self._number, number, text, voice, said, self._loop.time(), stopped)

    async def _interrupt(self, said: Said, stop: Line) -> Said | None:
        """Say ``stop`` while the answer is audible; None if it never was for long enough."""
        wait_s = self._random.uniform(*_STOP_AFTER_S)
        began_s: float | None = None
        while not self._over(said.last_s):
            now, sound_s = self._loop.time(), self._call.heard.last_sound_s
            sounding = sound_s > said.last_s and now - sound_s < _SOUNDING_S
            if sounding and began_s is None:
                began_s = now
            if sounding and began_s is not None and now - began_s >= wait_s:
                stopped = await self._call.microphone.say(stop.speech)
                await asyncio.sleep(_STOP_WAIT_S)
                return stopped
            await asyncio.sleep(_LOOK_S)
        return None

    def _over(self, since_s: float) -> bool:
        """Whether what was said at ``since_s`` has been answered to the end, or never will be."""
        call, now = self._call, self._loop.time()
        if call.ended != "" or now - since_s > _LONGEST_REPLY_S:
            return True
        quiet = call.state == "listening" and now - call.heard.last_sound_s > _QUIET_S
        return quiet and (call.reply_over_s > since_s or now - since_s > _PATIENCE_S)
