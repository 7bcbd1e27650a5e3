"""Is Parley quick to answer, does it never cut in, does it stop when told to? A labelled set of conversations.

Each case is sound made at run time with the truth about it to the sample, and is spoken to a session at real time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from app.catalog import model_path
from app.cli.bench.numbers import whole
from app.cli.bench.progress import Steps, steps
from app.cli.interrupts import end_at_once, leave_to_command
from app.config import Settings
from app.errors import InvalidRequest, ModelError
from app.telemetry.log import configure as configure_log

if TYPE_CHECKING:
    from app.bench.turns.cases import Case
    from app.bench.turns.measure import Measured, Outcome
    from app.bench.turns.scene import Scene
    from app.bench.turns.summary import Share, Spread, Summary

EXAMPLES = """examples:
  python -m app bench turns
  python -m app bench turns --quick --json
  python -m app bench turns --case "pause-*" --keep /tmp/pauses
  python -m app bench turns --case stop-1 --set turn.barge_in_ms=300
"""
_REPLY_TOKENS = 48
"""Long enough for a first sentence; the benchmark does not listen further."""


_MOST_JOBS = 64
_OTHERS_MATTER = 0.3
"""Cores that others keep busy on average before it is worth a warning."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="a third of the cases, some of each kind")
    parser.add_argument(
        "--case", action="append", default=[], metavar="NAME", help="only this one, or these: 'pause-*' (repeatable)"
    )
    parser.add_argument(
        "--jobs", type=whole(1, _MOST_JOBS), metavar="N", help="cases at a time (default: one per core, at most 8)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures and every case as JSON")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the same JSON to a file")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="write each case's sound there: user left, assistant right"
    )


def overrides(args: argparse.Namespace) -> Mapping[str, str]:
    given = {setting.partition("=")[0] for setting in args.set}
    wanted = {"llm.max_tokens": str(_REPLY_TOKENS)}
    if not args.log_level:
        wanted["runtime.log_level"] = "warning"
    return {key: value for key, value in wanted.items() if key not in given}


def run(settings: Settings, args: argparse.Namespace) -> int:
    """Hold the cases; 1 if one failed. Raises ModelError, InvalidRequest."""
    jobs = args.jobs or min(8, os.cpu_count() or 1)
    if args.keep is not None:
        _make_folder(args.keep)
    configure_log(settings.runtime.log_level)
    end_at_once()
    from app.bench.turns.measure import chosen, scenes
    from app.bench.turns.recordings import find
    from app.bench.turns.voices import Speakers

    leave_to_command()
    recordings = find(settings.runtime.model_store)
    cases = chosen(args.case, only_quick=args.quick, recordings=recordings)
    with steps(len(cases), "cases' sounds", line_s=10.0) as sounds:
        sounds.begin("making the sound")
        speakers = Speakers(_piper(settings))
        made = scenes(cases, speakers, recordings, lambda name: sounds.finish(f"made the sound of {name}"))
    left_out = [*recordings.missing, *([] if speakers.has_man else ["Piper's voice (another of Hibari's stands in)"])]
    began = time.monotonic()
    with steps(len(made), "cases") as progress:
        measured = asyncio.run(_hold(settings, made, jobs, args.keep, progress))
    result = _result(measured, jobs, time.monotonic() - began, left_out) | {"quick": args.quick}
    if args.out is not None:
        _write(args.out, json.dumps(result, indent=1, ensure_ascii=False))
    if args.json:
        print(json.dumps(result, indent=1, ensure_ascii=False))
    else:
        _print(measured, result, whole=bool(args.case))
    return 0 if all(outcome.verdict.passed for outcome in measured.outcomes) else 1


async def _hold(
    settings: Settings, made: Sequence[tuple[Case, Scene]], jobs: int, keep: Path | None, progress: Steps
) -> Measured:
    from app.bench.turns.measure import measure
    from app.wiring import build

    def on_done(outcome: Outcome) -> None:
        progress.finish(f"{outcome.verdict.name}: {_told(outcome)}")

    progress.begin("loading the models")
    async with build(settings) as parley:
        progress.begin("talking")
        return await measure(parley, settings, made, jobs=jobs, keep=keep, on_done=on_done)


def _piper(settings: Settings) -> Path | None:
    try:
        folder = model_path("piper-joe", settings.runtime.model_store, kind="tts")
    except ModelError:
        return None
    return next(iter(sorted(folder.glob("*.onnx"))), None)


def _result(measured: Measured, jobs: int, wall_s: float, left_out: Sequence[str]) -> dict[str, Any]:
    from app.bench.turns.summary import by_category, summarise

    verdicts = [outcome.verdict for outcome in measured.outcomes]
    return {
        "jobs": jobs,
        "wall_s": round(wall_s, 1),
        "own_cores": measured.own_cores,
        "other_cores": measured.other_cores,
        "left_out": list(left_out),
        "summary": asdict(summarise(verdicts)),
        "categories": {name: asdict(summary) for name, summary in by_category(verdicts).items()},
        "cases": [
            asdict(outcome.verdict) | ({} if outcome.verdict.passed else {"timeline": outcome.timeline})
            for outcome in measured.outcomes
        ],
    }


# For people


def _print(measured: Measured, result: Mapping[str, Any], *, whole: bool) -> None:
    from app.bench.turns.summary import by_category, summarise

    console = Console()
    verdicts = [outcome.verdict for outcome in measured.outcomes]
    for outcome in measured.outcomes:
        if whole or not outcome.verdict.passed:
            console.print(f"\n[bold]{outcome.verdict.name}[/]: {_told(outcome)}", highlight=False, soft_wrap=True)
            for line in outcome.timeline:
                console.print(line, markup=False, highlight=False, soft_wrap=True)
    summary = summarise(verdicts)
    console.print(_categories(by_category(verdicts)))
    console.print(
        "End and answer: since the last sample of speech. Ducked and silent: since the first of an interruption.\n",
        soft_wrap=True,
    )
    console.print(_figures(summary))
    for absent in result["left_out"]:
        console.print(f"Left out: {absent}", markup=False)
    if measured.other_cores > _OTHERS_MATTER:
        console.print(f"[yellow]Other processes kept {measured.other_cores:.2f} cores busy: the delays suffer.[/]")
    console.print(
        f"{summary.passed} of {summary.cases} cases{' of the quick set' if result['quick'] else ''} passed, {result['jobs']} at a time, {result['wall_s']:.0f} s."
    )


def _told(outcome: Outcome) -> str:
    verdict = outcome.verdict
    if verdict.faults:
        return "; ".join(f"{fault.value}: {what}" for fault, what in verdict.faults)
    return "passed" + "".join(f"; {note}" for note in verdict.notes)


def _categories(summaries: Mapping[str, Summary]) -> Table:
    table = Table(title="By category, ms")
    table.add_column("category", no_wrap=True)
    for name in ("passed", "end\np50", "end\np95", "answer\np50", "answer\np95", "ducked\np50", "silent\np50"):
        table.add_column(name, justify="right")
    for name, summary in summaries.items():
        table.add_row(
            name,
            f"{summary.passed}/{summary.cases}",
            *_two(summary.endpoint_ms),
            *_two(summary.voice_to_voice_ms),
            _two(summary.stop_ducked_ms)[0],
            _two(summary.stop_silent_ms)[0],
        )
    return table


def _figures(summary: Summary) -> Table:
    table = Table(title="Turn-taking", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    words, early = summary.words, summary.early_turns
    rows = {
        "delays": "p50 / p95 / worst",
        "endpoint delay": _three(summary.endpoint_ms),
        "words told to the client after": _three(summary.told_ms),
        "voice to voice": _three(summary.voice_to_voice_ms),
        "false cut-ins": f"{_share(summary.false_cut_ins)}: {summary.cut_ins} heard, {summary.split_turns} split",
        "missed ends": _share(summary.missed_ends),
        "unanswered": _share(summary.unanswered),
        "false interruptions": _share(summary.false_interruptions),
        "missed interruptions": _share(summary.missed_interruptions),
        "hallucinated turns": _share(summary.hallucinated_turns),
        "interrupted: 15 dB down after": _three(summary.stop_ducked_ms),
        "interrupted: silent after": _three(summary.stop_silent_ms),
        "not interrupted: kept silent for": _three(summary.held_ms),
        "words wrong, lost (of clean speech)": f"{words.errors}, {words.lost} of {words.said}",
        "early replies": f"{_share(early)}, won {_three(summary.early_ms)}, {summary.wasted_tokens} tokens wasted",
        "clock late": _three(summary.lag_ms),
    }
    for name, figure in rows.items():
        table.add_row(name, figure)
    return table


def _share(share: Share) -> str:
    return f"{share.count} of {share.among} ({100 * share.share:.1f} %)"


def _two(spread: Spread | None) -> tuple[str, str]:
    return (f"{spread.p50:.0f}", f"{spread.p95:.0f}") if spread else ("–", "–")


def _three(spread: Spread | None) -> str:
    return f"{spread.p50:.0f} / {spread.p95:.0f} / {spread.worst:.0f} ms" if spread else "–"


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidRequest(f"--keep {folder} cannot be made: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n", "utf-8")
    except OSError as error:
        raise InvalidRequest(f"--out {path} cannot be written: {error.strerror}") from error
