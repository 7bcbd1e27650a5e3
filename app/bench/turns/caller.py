"""Holds one case with a session, at real time, as a transport would; keeps all that went in and came out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.audio.frames import FRAME_MS, INPUT_FRAME, INPUT_RATE_HZ, OUTPUT_FRAME, OUTPUT_RATE_HZ, Pcm
from app.audio.resample import Resampler
from app.bench.turns.cases import Case, Echo, Must
from app.bench.turns.scene import Scene
from app.dialogue.host import Host
from app.dialogue.ports import WireEvent
from app.dialogue.session import Session

_TICK_S = FRAME_MS / 1000
_ANSWER_S = 6.0
"""How long after the end of a turn its answer is waited for."""
_AUDIBLE_S = 0.4
"""How much of an answer is listened to, to know that it is one."""
_QUIET_S = 1.2
"""How long after all is over something might still come of it."""
_NOTHING_S = 3.0
"""The same where nothing is to come: longer than a turn is held open."""
_REPLY_S = 30.0
"""Longest reply that is listened to the end."""
AUDIBLE = 64
"""Samples above this can be heard (-54 dBFS); a faded tail below it cannot."""


@dataclass(frozen=True, slots=True)
class Happening:
    """An event that the session sent, ``at_s`` seconds after its first frame."""

    at_s: float
    event: dict[str, Any]

    @property
    def type(self) -> str:
        return str(self.event["type"])


@dataclass(frozen=True, slots=True)
class Log:
    """All of a case. Tick k pushed the user's k-th frame and then read the assistant's."""

    case: Case
    marks: tuple[tuple[int, int], ...]
    """Of the scene, in samples (16 kHz) of the session's stream."""
    happenings: tuple[Happening, ...]
    ticks_s: NDArray[np.float64]
    """When each tick was, ``[k]``, seconds."""
    user: Pcm
    """int16 ``[k * 320]``, 16 kHz, echo included."""
    assistant: Pcm
    """int16 ``[k * 960]``, 48 kHz."""
    played: NDArray[np.int64]
    """Samples of the current reply that had been played before each tick, ``[k]``."""

    def at_s(self, sample: int) -> float:
        """When ``sample`` of the user's stream was at the microphone."""
        tick = min(sample // INPUT_FRAME, len(self.ticks_s) - 1)
        return float(self.ticks_s[tick]) - ((tick + 1) * INPUT_FRAME - sample) / INPUT_RATE_HZ

    @property
    def onset_s(self) -> float:
        return self.at_s(self.marks[0][0]) if self.marks else 0.0

    @property
    def end_s(self) -> float:
        """The true end: of the turn, or of the noise."""
        return self.at_s(self.marks[-1][1]) if self.marks else 0.0

    @property
    def end_ms(self) -> float:
        """The same in the session's own count of time."""
        return self.marks[-1][1] * 1000 / INPUT_RATE_HZ if self.marks else 0.0

    @property
    def lag_ms(self) -> float:
        """By how much the clock was late at its worst: what is measured then is off by as much."""
        nominal = self.ticks_s[0] + np.arange(len(self.ticks_s)) * _TICK_S
        return float((self.ticks_s - nominal).max() * 1000)


class _EchoPath:
    """From the loudspeaker to the microphone: later and quieter."""

    def __init__(self, echo: Echo) -> None:
        self._resampler = Resampler(OUTPUT_RATE_HZ, INPUT_RATE_HZ)
        self._gain = 10.0 ** (echo.level_db / 20.0)
        # What is read in one tick is in the microphone's next frame at the earliest.
        late = round(echo.delay_ms * INPUT_RATE_HZ / 1000) - INPUT_FRAME - self._resampler.delay_samples
        self._line: Pcm = np.zeros(INPUT_FRAME + max(0, late), np.int16)

    def heard(self) -> Pcm:
        """The next 20 ms at the microphone (int16 ``[320]``, 16 kHz)."""
        frame, self._line = self._line[:INPUT_FRAME], self._line[INPUT_FRAME:]
        return frame

    def played(self, pcm: Pcm) -> None:
        sound = (self._resampler.process(pcm) * self._gain).astype(np.int16)
        self._line = np.concatenate([self._line, sound])


@dataclass(slots=True)
class _Course:
    """What is known so far; decides when the case is over."""

    case: Case
    scene: Scene
    happenings: list[Happening] = field(default_factory=list)
    began: int | None = None
    """Tick at which the scene began."""
    spoke: list[int] = field(default_factory=list)
    """Ticks at which the assistant could be heard."""

    def last(self, type: str) -> float | None:
        return next((done.at_s for done in reversed(self.happenings) if done.type == type), None)

    def may_begin(self, tick: int) -> bool:
        if self.case.over_s is None:
            return True
        return bool(self.spoke) and tick - self.spoke[0] >= round(self.case.over_s / _TICK_S)

    def is_over(self, tick: int, now_s: float) -> bool:
        if self.began is None:
            return tick * _TICK_S > _REPLY_S  # the assistant never spoke
        done_s = (tick - self.began) * _TICK_S - self.scene.end / INPUT_RATE_HZ
        """How long what the user does has been over."""
        if done_s < 0:
            return False
        replied = self.last("response.done")
        quiet = replied is not None and now_s - replied > _QUIET_S
        match self.case.must:
            case Must.NOTHING:
                return done_s > _NOTHING_S
            case Must.PLAY_ON:
                return done_s > _REPLY_S or (quiet and done_s > _QUIET_S)
            case Must.STOP if not self.case.wants_answer:
                return done_s > _ANSWER_S or (quiet and done_s > 2 * _QUIET_S)
            case _:
                return done_s > (_REPLY_S if self.case.whole_reply else _ANSWER_S) or self._answered(
                    done_s, tick, quiet
                )

    def _answered(self, done_s: float, tick: int, quiet: bool) -> bool:
        assert self.began is not None
        over = self.began + self.scene.end // INPUT_FRAME
        heard = sum(_TICK_S for at in self.spoke if at > over)
        told = self.last("parley.turn") is not None
        if self.case.whole_reply:
            return told and quiet
        return told and heard >= _AUDIBLE_S and done_s > 2 * _AUDIBLE_S


async def hold(host: Host, case: Case, scene: Scene) -> Log:
    """Hold ``case`` with a session of its own. Its sound takes as long as it lasts."""
    loop = asyncio.get_running_loop()
    course = _Course(case, scene)
    began_s = loop.time()

    def take(event: WireEvent) -> None:
        course.happenings.append(Happening(loop.time() - began_s, dict(event)))

    session = (await host.open(take, transport="bench")).session
    try:
        began_s = loop.time()
        return await _run(session, course)
    finally:
        await session.close("done")


async def _run(session: Session, course: _Course) -> Log:
    scene, loop = course.scene, asyncio.get_running_loop()
    echo = _EchoPath(course.case.echo) if course.case.echo is not None else None
    user: list[Pcm] = []
    assistant: list[Pcm] = []
    ticks_s: list[float] = []
    played: list[int] = []
    began_s = due = loop.time()
    for tick in range(1_000_000):
        if course.began is None and course.may_begin(tick):
            course.began = tick
        frame = _frame(scene.sound, None if course.began is None else tick - course.began)
        if echo is not None:
            frame = np.clip(frame.astype(np.int32) + echo.heard(), -32768, 32767).astype(np.int16)
        ticks_s.append(loop.time() - began_s)
        session.push_audio(frame)
        played.append(session.playout.played_samples)
        sound = session.playout.read(OUTPUT_FRAME)
        if echo is not None:
            echo.played(sound)
        if int(np.abs(sound.astype(np.int32)).max()) > AUDIBLE:
            course.spoke.append(tick)
        user.append(frame)
        assistant.append(sound)
        if course.is_over(tick, loop.time() - began_s):
            break
        due += _TICK_S
        await asyncio.sleep(due - loop.time())
    began = (course.began or 0) * INPUT_FRAME
    return Log(
        course.case,
        tuple((began + first, began + end) for first, end in scene.marks),
        tuple(course.happenings),
        np.array(ticks_s),
        np.concatenate(user),
        np.concatenate(assistant),
        np.array(played, np.int64),
    )


def _frame(sound: Pcm, index: int | None) -> Pcm:
    """The ``index``-th 20 ms of the scene, silence before and after it."""
    frame = np.zeros(INPUT_FRAME, np.int16)
    if index is not None:
        part = sound[index * INPUT_FRAME : (index + 1) * INPUT_FRAME]
        frame[: len(part)] = part
    return frame
