"""Measure voice-to-voice latency: callers over real WebRTC ask spoken questions of a server in a process of its own.

From the last sample of speech leaving a caller to the first audible sample of the reply arriving there. Of every
caller's replies one in four, and at least one, is interrupted by a "stop". docs/performance.md says how each figure is taken.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from app.bench.voice.run import Measured, Options, Report, flags, measure
from app.bench.voice.speech import prepare
from app.bench.voice.summary import REMAINDER, Figures, Spread, figures
from app.catalog import model_path
from app.cli.bench.numbers import some_whole, whole
from app.cli.bench.progress import Steps, steps
from app.config import Settings
from app.errors import InvalidRequest

EXAMPLES = """examples:
  python -m app bench voice
  python -m app bench voice --sessions 1,2,4,8 --json
  python -m app bench voice --sessions 4 --turns 6 --log server.log --set turn.early_replies=false
"""
_MOST_SESSIONS = 256
_MOST_TURNS = 1000
_OTHERS_MATTER = 0.2
"""Cores; less than this is the system's own business."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sessions",
        type=some_whole(1, _MOST_SESSIONS),
        default=(1,),
        metavar="N[,N…]",
        help="callers at once, a run for each (default: 1)",
    )
    parser.add_argument(
        "--turns", type=whole(1, _MOST_TURNS), default=12, metavar="N", help="questions of each caller (default: 12)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the order of questions and all pauses (default: 1)")
    parser.add_argument("--port", type=whole(0, 65535), default=0, help="the server's port (default: a free one)")
    parser.add_argument("--json", action="store_true", help="print figures and every turn as JSON")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write that JSON to a file as well")
    parser.add_argument("--log", type=Path, metavar="FILE", help="keep the server's output there")


def overrides(args: argparse.Namespace) -> Mapping[str, str]:
    return {}


def run(settings: Settings, args: argparse.Namespace) -> int:
    """Print a table, or JSON. 1 if a turn was left unanswered. Raises ConfigError, ModelError, StageError."""
    counts: tuple[int, ...] = args.sessions
    _check_models(settings)
    found: list[tuple[Measured, Figures]] = []
    try:
        with steps(sum(counts) * args.turns, "turns") as progress:
            report = _reported(progress)
            report("preparing", {})
            script = prepare(settings.runtime.model_store, lambda text: report("preparing", {"text": text}))
            for sessions in counts:
                with _log_file(args.log) as log:
                    options = _options(settings, args, sessions, log)
                    report("run", {"sessions": sessions})
                    measured = asyncio.run(_interruptible(measure(options, script, report)))
                found.append((measured, figures(measured)))
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM
    result = json.dumps([_as_json(*one) for one in found], indent=1)
    if args.out:
        _write(args.out, result)
    if args.json:
        print(result)
    else:
        console = Console()
        for measured, row in found:
            console.print(_details(measured, row))
        console.print(_overview(found))
    return 0 if all(row.answered == row.turns for _, row in found) else 1


async def _interruptible(work: Any) -> Any:
    """SIGTERM, like Ctrl-C, lets ``work`` end its processes first."""
    task = asyncio.ensure_future(work)
    with contextlib.suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def _check_models(settings: Settings) -> None:
    """A missing model is told now, with its remedy, and not by a server that does not start."""
    store = settings.runtime.model_store
    if settings.llm.backend == "local":
        model_path(settings.llm.model, store, kind="llm")
    if settings.asr.backend == "faster-whisper":
        model_path(settings.asr.model, store, kind="asr")
    if settings.turn.backend == "smart-turn":
        model_path(settings.turn.model, store, kind="turn")


def _options(settings: Settings, args: argparse.Namespace, sessions: int, log: Path) -> Options:
    given = (
        ("--config", str(args.config) if args.config else None),
        ("--llm", args.llm),
        ("--voice", args.voice),
        ("--log-level", args.log_level),
    )
    # The server listens on loopback, where it wants no token of ours.
    most = max(sessions, settings.server.max_sessions)
    forced = ("server.token=", f"server.max_sessions={most}")
    return Options(sessions, args.turns, args.seed, args.port, flags(given, (*args.set, *forced)), log)


@contextlib.contextmanager
def _log_file(wanted: Path | None) -> Iterator[Path]:
    if wanted is not None:
        wanted.parent.mkdir(parents=True, exist_ok=True)
        yield wanted
        return
    with tempfile.TemporaryDirectory(prefix="parley-bench-") as folder:
        yield Path(folder) / "server.log"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n", "utf-8")
    except OSError as error:
        raise InvalidRequest(f"--out {path} cannot be written: {error}") from error


def _reported(progress: Steps) -> Report:
    """What goes on, and how long the last answer took."""
    sessions = 0

    def report(what: str, fields: dict[str, Any]) -> None:
        nonlocal sessions
        sessions = fields.get("sessions", sessions)
        told = _told(what, fields)
        if what == "turn":
            progress.finish(f"{sessions} at once: {told}")
        elif told:
            progress.begin(f"{sessions} at once: {told}" if sessions else told)

    return report


def _told(what: str, fields: dict[str, Any]) -> str:
    if what == "turn":
        about = fields["about_ms"]
        answered = "not answered" if about is None else f"answered after about {about:.0f} ms"
        return f"“{fields['text']}” {answered}"
    return {
        "preparing": f"preparing what is said: “{fields.get('text', '…')}”",
        "starting": "the server loads its models…",
        "connecting": f"calling the server (process {fields.get('process_id')})…",
        "measuring": "listening to what was received…",
    }.get(what, "")


def _as_json(measured: Measured, row: Figures) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins({"figures": row, "server": measured.server, "run": measured.outcome})
    return {**built, "voices": list(measured.voices)}


def _overview(found: Sequence[tuple[Measured, Figures]]) -> Table:
    table = Table(title="Voice to voice, ms")
    for name in (
        "callers",
        "answer\np50",
        "answer\np95",
        "answer\nmax",
        "answered",
        "gaps",
        "ducked\np50 (max)",
        "silent\np50 (max)",
        "MiB\npeak",
    ):
        table.add_column(name, justify="right")
    for measured, row in found:
        voice, server = row.voice_to_voice_ms, measured.server
        table.add_row(
            str(row.sessions),
            *(("–",) * 3 if voice is None else (_ms(voice.p50), _ms(voice.p95), _ms(voice.max))),
            f"{row.answered} of {row.turns}",
            str(sum(row.gaps.values())),
            _p50_max(row.ducked_ms),
            _p50_max(row.silent_ms),
            f"{server.rss_peak_mb:.0f}",
        )
    return table


def _details(measured: Measured, row: Figures) -> Table:
    """Everything else about one run."""
    server, outcome = measured.server, measured.outcome
    callers_cores = outcome.cpu_s / outcome.wall_s
    table = Table(title=f"{row.sessions} at once, {outcome.wall_s:.0f} s", show_header=False)
    table.add_column()
    table.add_column()
    stages = {stage: ms for stage, ms in row.waterfall_ms.items() if stage != REMAINDER}
    table.add_row("waterfall, medians", "  ".join(f"{stage} {ms:.0f}" for stage, ms in stages.items()))
    table.add_row("network and rest", _ms(row.waterfall_ms.get(REMAINDER)))
    won = "none won time"
    if row.early_ms is not None:
        won = f"{row.early_ms.count} won {row.early_ms.p50:.0f} ms (median)"
    table.add_row("early replies", f"{won}, {row.early_wasted_tokens:.0f} tokens wasted")
    table.add_row("word error rate", f"{100 * row.word_error_rate:.1f} %")
    table.add_row("cut-ins", str(row.cut_ins))
    kinds = ", ".join(f"{count} {kind}" for kind, count in row.gaps.items()) or "none"
    table.add_row("audible gaps", f"{kinds}, longest {row.longest_gap_ms:.0f} ms")
    table.add_row("  voice not ready for", f"{server.underrun_ms:.0f} ms in all")
    table.add_row("“stop”", f"{row.stops_obeyed} of {row.stops} obeyed")
    table.add_row("  15 dB quieter after", _spread(row.ducked_ms))
    table.add_row("  silent after", _spread(row.silent_ms))
    table.add_row("cores", f"front end {server.front_end_cores:.2f}, LLM worker {server.worker_cores:.2f}")
    table.add_row("", f"callers {callers_cores:.2f} (their packets left {outcome.late_p95_ms:.1f} ms late, p95)")
    if server.other_cores > _OTHERS_MATTER:
        table.add_row(
            "[yellow]other processes[/]", f"{server.other_cores:.2f}: something else runs, the figures suffer"
        )
    table.add_row("resident memory, MiB", f"peak {server.rss_peak_mb:.0f}, end {server.rss_end_mb:.0f}")
    table.add_row("  shared pages once", f"end {server.pss_end_mb:.0f}")
    table.add_row("event loop lag, ms", f"median {server.loop_lag_p50_ms:.0f}, max {server.loop_lag_max_ms:.0f}")
    if outcome.lost_calls:
        table.add_row("[red]calls lost[/]", "; ".join(outcome.lost_calls))
    for name, counted in (("notices", row.notices), ("errors", row.errors)):
        if counted:
            table.add_row(name, ", ".join(f"{count} {code}" for code, count in counted.items()))
    return table


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _p50_max(values: Spread | None) -> str:
    return "–" if values is None else f"{values.p50:.0f} ({values.max:.0f})"


def _spread(values: Spread | None) -> str:
    return "–" if values is None else f"p50 {values.p50:.0f} ms, p95 {values.p95:.0f}, max {values.max:.0f}"
