"""Run a saved turn again ("save this turn" on the page), and see what goes otherwise.

The same session code hears the same sound at the same times, with the saved turn's conversation before it and its
way of taking turns. Status 0: it went the same way; 1: other words were heard, or it ended otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from app.cli.quiet import only_warnings
from app.cli.saving import check_place, save_wav
from app.cli.transcript import printable
from app.cli.waterfall import print_plain, waterfalls
from app.config import Settings
from app.errors import InvalidRequest
from app.telemetry.log import configure as configure_log

if TYPE_CHECKING:
    from app.replay.bundle import Bundle
    from app.replay.compare import Difference
    from app.replay.course import Course
    from app.replay.run import Replayed

EXAMPLES = """examples:
  python -m app replay turn.zip                       today's models, on the saved sound
  python -m app replay turn.zip --stages recorded     every stage answers as it did then: needs no models, and no time
  python -m app replay turn.zip --set turn.max_wait_ms=3000
  python -m app replay turn.zip --out reply.wav --json
"""
_LIMIT_S = 60.0
_LONGEST_S = 3600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, metavar="ZIP", help="a saved turn")
    parser.add_argument(
        "--stages",
        choices=("real", "recorded"),
        default="real",
        help="real (default): this machine's models, at real time; recorded: what each stage answered then, at once",
    )
    parser.add_argument(
        "--own-config",
        action="store_true",
        help="keep this machine's settings of conversing too, instead of the saved turn's (assistant, vad, turn, audio)",
    )
    parser.add_argument("--out", type=Path, metavar="WAV", help="write what the assistant says (48 kHz mono)")
    parser.add_argument("--json", action="store_true", help="print both courses and the differences as JSON")
    parser.add_argument(
        "--limit",
        type=_seconds,
        default=_LIMIT_S,
        metavar="S",
        help=f"give up this many seconds after the saved sound is over (default {_LIMIT_S:.0f})",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"seconds are wanted, above 0 and at most {_LONGEST_S:.0f}, not {text!r}")
    return seconds


def overrides(args: argparse.Namespace) -> Mapping[str, str]:
    return only_warnings(args)


def run(settings: Settings, args: argparse.Namespace) -> int:
    """Replay it; 1 if it goes another way. Raises InvalidRequest for what is no saved turn, ModelError."""
    from app.replay.bundle import read_bundle
    from app.replay.compare import differences
    from app.replay.course import saved_course
    from app.replay.settings import models_that_differ, settings_for

    recorded = args.stages == "recorded"
    if recorded and args.own_config:
        raise InvalidRequest(
            "--own-config is for real stages: recorded ones answer what the saved turn's settings asked."
        )
    check_place("--out", args.out)
    bundle = read_bundle(args.bundle)
    then = saved_course(bundle)
    configure_log(settings.runtime.log_level)
    given = {pair.partition("=")[0].strip() for pair in args.set}
    used = settings_for(bundle, settings, recorded=recorded, own_config=args.own_config, given=given)
    with _progress(bundle.seconds) as told:
        replayed, missed = (
            _run_recorded(bundle, used, args.limit, told) if recorded else _run_real(bundle, used, args.limit, told)
        )
    found = differences(then, replayed.course, recorded=recorded)
    same = replayed.ended and not any(difference.matters for difference in found)
    if args.out is not None:
        save_wav(args.out, replayed.pcm)
    models = [] if recorded else models_that_differ(bundle, settings)
    if args.json:
        _print_json(args.stages, then, replayed, found, models, missed, same=same)
    else:
        _print(bundle, then, replayed, found, models, missed, same=same)
        if args.out is not None:
            print(f"What the assistant said is in {args.out}.")
    return 0 if same else 1


def _run_recorded(
    bundle: Bundle, settings: Settings, limit_s: float, told: Callable[[str, float], None]
) -> tuple[Replayed, list[str]]:
    from app.audio import VoiceActivity, load_vad
    from app.replay.run import Replay
    from app.replay.stages import Recorded
    from app.replay.virtual_time import run_virtual

    told("loading voice activity detection", 0.0)
    model, _ = load_vad(settings.vad)

    async def replay() -> tuple[Replayed, list[str]]:
        run = Replay(bundle, settings, limit_s=limit_s, on_time=lambda seconds: told("replaying", seconds))
        recorded = Recorded(bundle, run.clock)
        stages = recorded.stages(
            lambda: VoiceActivity(model, settings.vad), bundle, turn_model=settings.turn.backend != "silence"
        )
        return await run.run(stages), recorded.missed

    return run_virtual(replay())


def _run_real(
    bundle: Bundle, settings: Settings, limit_s: float, told: Callable[[str, float], None]
) -> tuple[Replayed, list[str]]:
    from app.replay.run import Replay
    from app.wiring import build

    async def replay() -> tuple[Replayed, list[str]]:
        told("loading the models", 0.0)
        async with build(settings) as parley:
            run = Replay(bundle, settings, limit_s=limit_s, on_time=lambda seconds: told("replaying", seconds))
            return await run.run(parley.stages), []

    return asyncio.run(replay())


@contextmanager
def _progress(seconds: float) -> Iterator[Callable[[str, float], None]]:
    """A bar on a terminal; elsewhere a line for each thing that begins."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal, refresh_per_second=4)
    task = bar.add_task("loading", total=seconds)
    last = ""

    def told(what: str, at_s: float) -> None:
        nonlocal last
        bar.update(task, description=what, completed=min(at_s, seconds))
        if what != last and not console.is_terminal:
            print(f"{what} ({seconds:.1f} s)" if what == "replaying" else what, file=sys.stderr, flush=True)
        last = what

    with bar:
        yield told


# What came of it


def _print(
    bundle: Bundle,
    then: Course,
    replayed: Replayed,
    found: list[Difference],
    models: list[str],
    missed: list[str],
    *,
    same: bool,
) -> None:
    console = Console()
    facts, now = bundle.facts, replayed.course
    _say(f"Saved {facts.saved_at or 'at some time'} by Parley {facts.parley or '?'}, {bundle.seconds:.1f} s of sound.")
    if facts.missing_s:
        print(f"Its first {facts.missing_s:.1f} s are missing: the turn was too long for server.saved_turns_mb.")
    for line in models:
        _say(f"Another model: {line}.")
    print()
    _say(f"You:    {now.user or '(nothing was heard)'}")
    _say(f"Parley: {now.reply or '(nothing)'}")
    for _, notice in now.notices:
        _say(f"Parley: {notice}")
    for error in now.errors:
        _say(f"        {error}")
    print()
    if console.is_terminal:
        console.print(waterfalls(then, now))
    else:
        print_plain(then, now)
    print()
    for difference in found:
        _say(f"{'*' if difference.matters else '-'} {difference.text}")
    for what in dict.fromkeys(missed):
        _say(f"- The recording does not hold {what}.")
    if not replayed.ended:
        print("* It was given up: see --limit.")
    if same:
        print("It went the same way." if found or missed else "It went the same.")
    else:
        print("It went another way (*).")


def _say(text: str) -> None:
    """What somebody else's file says must not move the cursor."""
    print(printable(text))


def _print_json(
    stages: str,
    then: Course,
    replayed: Replayed,
    found: list[Difference],
    models: list[str],
    missed: list[str],
    *,
    same: bool,
) -> None:
    result: dict[str, Any] = {
        "stages": stages,
        "same": same,
        "ended": replayed.ended,
        "then": asdict(then),
        "now": asdict(replayed.course),
        "differences": [asdict(difference) for difference in found],
        "models": models,
        "not_recorded": list(dict.fromkeys(missed)),
    }
    print(json.dumps(result, ensure_ascii=False, indent=1))
