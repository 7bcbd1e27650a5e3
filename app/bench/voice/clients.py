"""All callers of one run, in a process of their own: ``python -m app.bench.voice.clients``, a job on standard input.

It writes one JSON object a line: ``connected`` for each caller, ``began``, ``turn`` for each turn that is over (not yet
measured), ``ended``, and at last ``result``. It ends when its standard input is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from random import Random
from typing import Any

import aioice.ice
import msgspec
import numpy as np

from app.audio import OUTPUT_RATE_HZ, read_wav
from app.bench.voice.call import CallFailed, VoiceCall
from app.bench.voice.caller import Caller, Line, Lines, plan
from app.bench.voice.listening import Heard
from app.bench.voice.packets import room, spoken
from app.bench.voice.speech import Clip
from app.bench.voice.turn import Asked, Turn, measured
from app.telemetry.scheduling import be_nice

_STAGGER_S = 2.0
"""Callers begin within this time for each of them, so that they do not speak in step."""
# A browser is content with a late answer to its "are you still there?"; aioice hangs up after six of more than 0.5 s.
aioice.ice.CONSENT_FAILURES = sys.maxsize


@dataclass(frozen=True, slots=True)
class Job:
    """What to do."""

    url: str
    sessions: int
    turns: int
    seed: int
    questions: tuple[Clip, ...]
    long_questions: tuple[Clip, ...]
    stops: tuple[Clip, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it. Times are of the callers' process."""

    turns: tuple[Turn, ...]
    planned_turns: int
    wall_s: float
    cpu_s: float
    """Of the callers' process, while they talked."""
    lost_calls: tuple[str, ...]
    """Why calls were over before their turns were."""
    late_p50_ms: float
    late_p95_ms: float
    late_max_ms: float
    """How long after its time a packet left: what the callers' own process adds to every figure."""


async def run(job: Job, tell: Any) -> Outcome:
    """Hold all calls, then measure them. Raises CallFailed, InvalidRequest for a damaged clip."""
    lines = Lines(*(tuple(_line(clip) for clip in group) for group in (job.questions, job.long_questions, job.stops)))
    quiet_room = room(job.seed)
    calls = [VoiceCall(job.url, quiet_room) for _ in range(job.sessions)]
    async with contextlib.AsyncExitStack() as stack:
        for number, call in enumerate(calls):
            await stack.enter_async_context(call)
            tell({"type": "connected", "session": number})
        tell({"type": "began"})
        began, cpu = time.monotonic(), time.process_time()
        held = await asyncio.gather(*(_talk(job, number, call, lines, tell) for number, call in enumerate(calls)))
        wall_s, cpu_s = time.monotonic() - began, time.process_time() - cpu
        tell({"type": "ended"})
        lost = tuple(f"caller {number}: {call.ended}" for number, call in enumerate(calls) if call.ended)
    late_ms = 1000 * np.concatenate([call.microphone.late_s for call in calls])
    turns: list[Turn] = []
    for call, asked in zip(calls, held, strict=True):
        heard = Heard.of(call.heard)
        turns += [measured(one, heard, call.events) for one in asked]
    p50, p95, most = (float(np.percentile(late_ms, percent)) for percent in (50, 95, 100))
    return Outcome(tuple(turns), job.sessions * job.turns, wall_s, cpu_s, lost, p50, p95, most)


async def _talk(job: Job, number: int, call: VoiceCall, lines: Lines, tell: Any) -> list[Asked]:
    random = Random(f"{job.seed}/{number}")

    def on_turn(asked: Asked) -> None:
        # Before anything is decoded: near enough to show how it goes.
        sound_s = next((at_s for at_s, event in call.events if at_s > asked.said.last_s and _is_heard(event)), None)
        ms = None if sound_s is None else (sound_s - asked.said.last_s) * 1000
        tell({"type": "turn", "session": number, "number": asked.number, "text": asked.text, "about_ms": ms})

    await asyncio.sleep(random.uniform(0.0, _STAGGER_S * (job.sessions - 1)))
    return await Caller(number, call, random, on_turn).talk(plan(lines, job.turns, random))


def _is_heard(event: dict[str, Any]) -> bool:
    return bool(event["type"] == "parley.state" and event["state"] == "speaking")


def _line(clip: Clip) -> Line:
    return Line(clip.text, clip.voice, spoken(read_wav(clip.path, OUTPUT_RATE_HZ)))


def _tell(message: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


def _end_with_parent() -> None:
    """Whoever started this process holds its standard input open."""
    while os.read(sys.stdin.fileno(), 1024):  # not through the buffer, whose lock would be held when Python ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)


_NICENESS = -10
"""Callers have machines of their own: what they hear late must be the server's doing. It takes privileges; without
them they compete with the server, and the table says how late their own packets left."""


def main() -> int:
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    be_nice(_NICENESS)
    try:
        outcome = asyncio.run(run(job, _tell))
    except CallFailed as error:
        _tell({"type": "failed", "message": str(error)})
        return 1
    _tell({"type": "result", "outcome": outcome})
    return 0


if __name__ == "__main__":
    sys.exit(main())
