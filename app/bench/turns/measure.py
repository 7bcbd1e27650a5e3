"""Holds all cases with the real stages, several at a time, and judges them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import soundfile

from app.audio.frames import INPUT_RATE_HZ, OUTPUT_RATE_HZ, Pcm
from app.bench.turns.caller import hold
from app.bench.turns.cases import Case
from app.bench.turns.catalogue import GREETING, catalogue, quick
from app.bench.turns.heard import listen, undisturbed
from app.bench.turns.load import Watch
from app.bench.turns.recordings import Recordings
from app.bench.turns.scene import Scene, render
from app.bench.turns.sounds import silence
from app.bench.turns.timeline import stereo, timeline
from app.bench.turns.verdict import Verdict, judge
from app.bench.turns.voices import Speakers
from app.config import Settings
from app.dialogue.host import Host
from app.errors import InvalidRequest
from app.wiring import Parley


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: Verdict
    timeline: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """``own_cores`` were busy with Parley and the benchmark on average, ``other_cores`` with anything else."""

    outcomes: tuple[Outcome, ...]
    own_cores: float
    other_cores: float


def chosen(names: Sequence[str], *, only_quick: bool, recordings: Recordings) -> list[Case]:
    """The cases that can be made here, by patterns of their names if there are any. Raises InvalidRequest."""
    cases = quick(catalogue()) if only_quick else catalogue()
    if names:
        for name in names:
            if not any(fnmatchcase(case.name, name) for case in catalogue()):
                known = ", ".join(dict.fromkeys(case.name.partition("-")[0] + "-*" for case in catalogue()))
                raise InvalidRequest(f"No case matches {name!r}; there are: {known}.")
        cases = tuple(case for case in catalogue() if any(fnmatchcase(case.name, name) for name in names))
    possible = [
        case
        for case in cases
        if not (case.needs_phrases and recordings.phrases is None) and not (case.needs_demo and recordings.demo is None)
    ]
    if not possible:
        raise InvalidRequest(f"Nothing can be made of these cases here; missing: {'; '.join(recordings.missing)}.")
    return possible


def scenes(
    cases: Sequence[Case], speakers: Speakers, recordings: Recordings, on_done: Callable[[str], None]
) -> list[tuple[Case, Scene]]:
    """The sound of each; takes a few seconds."""
    made = []
    for case in cases:
        made.append((case, render(case, speakers, recordings)))
        on_done(case.name)
    return made


async def measure(
    parley: Parley,
    settings: Settings,
    made: Sequence[tuple[Case, Scene]],
    *,
    jobs: int,
    keep: Path | None,
    on_done: Callable[[Outcome], None],
) -> Measured:
    """Hold each case, ``jobs`` at a time, the longest first; outcomes in the order of ``made``."""
    silent, greeting = (Host(parley.stages, _greeting(settings, text)) for text in ("", GREETING))
    outcomes: dict[str, Outcome] = {}
    waiting = sorted(made, key=_length_s)

    async def hold_next() -> None:
        while waiting:
            case, scene = waiting.pop()
            log = await hold(silent if case.over_s is None else greeting, case, scene)
            heard = listen(log, reference if case.over_s is not None else silence(0))
            if keep is not None:
                soundfile.write(keep / f"{case.name}.wav", stereo(log), OUTPUT_RATE_HZ, subtype="PCM_16")
            outcomes[case.name] = Outcome(judge(log, heard), tuple(timeline(log, heard)))
            on_done(outcomes[case.name])

    try:
        over = any(case.over_s is not None for case, _ in made)
        reference: Pcm = await undisturbed(greeting) if over else silence(0)
        watch = Watch()
        async with asyncio.TaskGroup() as group:
            for _ in range(jobs):
                group.create_task(hold_next())
        own_cores, other_cores = watch.cores()
    finally:
        await silent.close()
        await greeting.close()
    return Measured(tuple(outcomes[case.name] for case, _ in made), round(own_cores, 2), round(other_cores, 2))


def _greeting(settings: Settings, text: str) -> Settings:
    return settings.model_copy(update={"assistant": settings.assistant.model_copy(update={"greeting": text})})


def _length_s(made: tuple[Case, Scene]) -> float:
    """About how long it takes; what is spoken over is heard to its end."""
    case, scene = made
    return scene.end / INPUT_RATE_HZ + (10.0 if case.over_s is not None or case.whole_reply else 3.0)
