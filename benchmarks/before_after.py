"""What batching by tokens changes: ``python -m benchmarks.before_after``.

So many users ask at the same moment, with prompts of 20 to 400 tokens and replies of 8 to 64. They are served by
``generate`` one request at a time, by ``generate`` on padded batches of 16, and by Parley's worker behind its server.
The result goes to benchmarks/results/before_after.json, table and plot to docs/. Takes about five minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import Any

from rich.console import Console

from benchmarks import plots, report
from benchmarks.contenders import Contender, RunFailed, Running, parley, start, transformers
from benchmarks.machine import busy, describe
from benchmarks.measure import Figures, fold
from benchmarks.process import StartFailed, end_on_sigterm

_USERS = (1, 4, 16, 32, 64, 100)
_BATCH = 16
_EXAMPLES = """examples:
  python -m benchmarks.before_after
  python -m benchmarks.before_after --users 1,16,32
  python -m benchmarks.before_after --tables          table and plot anew from the last result
"""
_COLUMNS = {
    "tokens per second": ("tok_s", 0),
    "mean, s": ("latency_mean_s", 2),
    "p99, s": ("latency_p99_s", 2),
    "first token p50, ms": ("ttft_p50_ms", 0),
    "peak memory, MiB": ("peak_mb", 0),
}


def contenders() -> list[Contender]:
    """The slowest first, so that the last ones are not the only ones to meet a warm machine."""
    return [
        transformers(
            *("transformers_static", "1"), name="one-at-a-time", title="one request at a time (transformers generate)"
        ),
        transformers(
            *("transformers_static", str(_BATCH)),
            name="static-batches",
            title=f"static padded batches of {_BATCH} (transformers generate)",
        ),
        parley(title="Parley's worker, over HTTP"),
    ]


async def measure(users: list[int], runs: int, console: Console) -> dict[str, Any]:
    """Raises StartFailed or RunFailed: with one of three missing there is nothing to compare."""
    machine = describe()
    started: list[Running] = []
    gathered: dict[tuple[str, int], list[Figures]] = {}
    seed = str(time.time_ns())
    try:
        for contender in contenders():
            if contender.missing():
                raise StartFailed(f"{contender.title}: {contender.missing()}")
            started.append(await start(contender))
            started[-1].group.sleep()
        for level in users:
            for run in range(runs):
                for running in started:
                    figures = await running.measured("mixed", level, f"{seed} {level} {run}")
                    gathered.setdefault((running.contender.name, level), []).append(figures)
                    console.print(
                        f"{level:>4} users  {running.contender.title:<52} {figures['tok_s']:7.1f} tokens/s  "
                        f"mean {figures['latency_mean_s']:7.2f} s  p99 {figures['latency_p99_s']:7.2f} s",
                        highlight=False,
                    )
    finally:
        for running in started:
            await running.group.stop()
    return {
        "machine": machine,
        "runs": runs,
        "titles": {running.contender.name: running.contender.title for running in started},
        "versions": {running.contender.name: running.contender.version() for running in started},
        "cells": [
            {"contender": name, "users": level, "figures": fold(figures)} for (name, level), figures in gathered.items()
        ],
    }


def page(result: dict[str, Any]) -> str:
    """The table, and what changed against one request at a time."""
    rows = []
    for cell in result["cells"]:
        figures = cell["figures"]
        values = [report.spread(figures.get(name), digits) for name, digits in _COLUMNS.values()]
        rows.append([f"{cell['users']} users: {result['titles'][cell['contender']]}", *values])
    changes = []
    for level in sorted({cell["users"] for cell in result["cells"]}):
        now = _figures(result, "parley", level)
        row = [str(level)]
        for before in ("one-at-a-time", "static-batches"):
            then = _figures(result, before, level)
            row += [_change(then, now, name) for name in ("tok_s", "latency_mean_s", "latency_p99_s")]
        changes.append(row)
    header = [
        "users",
        *(f"{what} against {whom}" for whom in ("one at a time", "static") for what in ("throughput", "mean", "p99")),
    ]
    plot = "![Throughput, mean and P99 latency, and memory against users](before-after.svg)"
    parts = [report.facts(result["machine"]), report.table(["", *_COLUMNS], rows), report.table(header, changes), plot]
    return "\n\n".join(parts)


def publish(result: dict[str, Any], console: Console) -> None:
    report.put_between(report.PAGE, "bench:before-after", page(result))
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    wanted = {
        "tokens per second": "tok_s",
        "mean, s": "latency_mean_s",
        "p99, s": "latency_p99_s",
        "peak memory, MiB": "peak_mb",
    }
    for title, name in wanted.items():
        series = panels.setdefault(title, {})
        for cell in result["cells"]:
            series.setdefault(result["titles"][cell["contender"]], []).append((cell["users"], cell["figures"][name][1]))
    why_not = plots.lines(
        report.PAGE.with_name("before-after.svg"), panels, "users at once", logarithmic=("mean, s", "p99, s")
    )
    console.print(why_not or f"table and plot: {report.PAGE.parent}", highlight=False)


def _figures(result: dict[str, Any], name: str, level: int) -> dict[str, Any]:
    for cell in result["cells"]:
        if cell["contender"] == name and cell["users"] == level:
            return dict(cell["figures"])
    return {}


def _change(before: dict[str, Any], after: dict[str, Any], name: str) -> str:
    """In percent of ``before``, with its sign."""
    if name not in before or name not in after:
        return "–"
    return f"{100 * (after[name][1] / before[name][1] - 1):+.0f} %"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.before_after",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = ",".join(str(level) for level in _USERS)
    parser.add_argument("--users", default=default, help=f"how many ask at once (default: {default})")
    parser.add_argument("--runs", type=int, default=1, help="of each cell (default: 1)")
    parser.add_argument("--quick", action="store_true", help="1 and 8 users; writes no result and no table")
    parser.add_argument("--tables", action="store_true", help="only write table and plot from the last result")
    args = parser.parse_args()
    end_on_sigterm()
    console = Console(soft_wrap=True)
    if args.tables:
        publish(report.load("before_after"), console)
        return 0
    if busy():
        console.print(f"[yellow]Careful:[/] {busy()}", highlight=False)
    users = [1, 8] if args.quick else [int(part) for part in args.users.split(",")]
    try:
        result = asyncio.run(measure(users, args.runs, console))
    except (StartFailed, RunFailed) as error:
        console.print(f"[red]✗[/] {error}", highlight=False)
        return 1
    if not args.quick:
        console.print(f"result: {report.save('before_after', result)}", highlight=False)
        publish(result, console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
