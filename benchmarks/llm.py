"""Parley's worker and its peers side by side on this machine: ``make bench-llm``, or ``python -m benchmarks.llm``.

All contenders are started once and put to sleep; then each run goes round all of them, so that a machine that gets
slower meanwhile does so for everybody. The result goes to benchmarks/results/llm.json, the tables to docs/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks import llm_tables, report
from benchmarks.contenders import Contender, RunFailed, Running, everybody, named, start
from benchmarks.machine import busy, describe
from benchmarks.measure import Figures, fold
from benchmarks.process import StartFailed, end_on_sigterm
from benchmarks.workloads import Workload

_EXAMPLES = """examples:
  make bench-peers                                     build the peers (once; llama.cpp compiles for some minutes)
  make bench-llm                                       everything, about ten minutes on two cores
  python -m benchmarks.llm --quick                     one run at 1 and 16 conversations, to see that all is well
  python -m benchmarks.llm --peers ours,llama.cpp --workloads w2 --print
                                                       some of the contenders, one workload, nothing written
  python -m benchmarks.llm --tables                    write the tables anew from the last result
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """What a row of figures is about."""

    workload: Workload
    concurrency: int


def cells(concurrency: Sequence[int], workloads: Sequence[Workload], calls: int) -> list[Cell]:
    """W1 at each concurrency, W2 with ``calls`` sessions, and a lone conversation of equal turns."""
    found = [Cell("w1", number) for number in concurrency]
    found += [Cell("w2", calls), Cell("turns", 1)]
    return [cell for cell in found if cell.workload in workloads]


def order(contenders: Sequence[Running], cells: Sequence[Cell], runs: int) -> Iterator[tuple[Cell, int, Running]]:
    """Each run of a cell goes round all contenders, and each round begins with another of them."""
    for cell in cells:
        for run in range(runs):
            turn = run % max(1, len(contenders))
            for running in (*contenders[turn:], *contenders[:turn]):
                yield cell, run, running


async def compare(
    contenders: Sequence[Contender], cells: Sequence[Cell], runs: int, console: Console
) -> dict[str, Any]:
    """The whole result. Contenders that are missing or fail are in it with the reason."""
    machine = describe()
    failures: dict[str, str] = {}
    started: list[Running] = []
    gathered: dict[tuple[str, Cell], list[Figures]] = {}
    try:
        for contender in contenders:
            running = await _started(contender, failures, console)
            if running is not None:
                started.append(running)
        await _measure(started, cells, runs, gathered, failures, console)
    finally:
        for running in started:
            await running.group.stop()
    return {
        "machine": machine,
        "runs": runs,
        "contenders": {contender.name: _described(contender, started) for contender in contenders},
        "failures": failures,
        "cells": [
            {"contender": name, "workload": cell.workload, "concurrency": cell.concurrency, "figures": fold(figures)}
            for (name, cell), figures in gathered.items()
        ],
    }


async def _started(contender: Contender, failures: dict[str, str], console: Console) -> Running | None:
    failures[contender.name] = contender.missing()
    if not failures[contender.name]:
        began = time.monotonic()
        try:
            running = await start(contender)
        except StartFailed as error:
            failures[contender.name] = str(error)
        else:
            running.group.sleep()
            del failures[contender.name]
            console.print(f"[green]✓[/] {contender.title}: up in {time.monotonic() - began:.0f} s", highlight=False)
            return running
    console.print(f"[yellow]–[/] {contender.title}: {failures[contender.name]}", highlight=False)
    return None


async def _measure(
    started: Sequence[Running],
    cells: Sequence[Cell],
    runs: int,
    gathered: dict[tuple[str, Cell], list[Figures]],
    failures: dict[str, str],
    console: Console,
) -> None:
    seed = str(time.time_ns())
    columns = (TextColumn("{task.description:<44}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("", total=len(cells) * runs * len(started))
        for cell, run, running in order(started, cells, runs):
            name = running.contender.name
            if name not in failures:
                progress.update(task, description=f"{cell.workload} x{cell.concurrency}, run {run + 1}: {name}")
                try:
                    # The same seed for everybody: all answer the same prompts, which none has seen before.
                    figures = await running.measured(
                        cell.workload, cell.concurrency, f"{seed} {cell.concurrency} {run}"
                    )
                    gathered.setdefault((name, cell), []).append(figures)
                except RunFailed as error:
                    failures[name] = f"{cell.workload} x{cell.concurrency}: {error}"
                    progress.console.print(f"[red]✗[/] {name}: {failures[name]}", highlight=False)
            progress.advance(task)


def _described(contender: Contender, started: Sequence[Running]) -> dict[str, str]:
    there = any(running.contender is contender for running in started)
    return {
        "title": contender.title,
        "how": contender.how,
        "version": contender.version() if there else "",
        "command": " ".join(contender.command(0)).replace(f"{report.ROOT}/", "").replace("port 0", "port PORT")
        if there
        else "",
        "environment": " ".join(f"{name}={value}" for name, value in contender.env.items()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.llm",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join(contender.name for contender in everybody())
    parser.add_argument("--peers", metavar="NAMES", help=f"who takes part, with commas; ours is parley ({names})")
    parser.add_argument("--workloads", default="w1,w2,turns", help="with commas (default: w1,w2,turns)")
    parser.add_argument("--concurrency", default="1,4,16,32", help="of w1 (default: 1,4,16,32)")
    parser.add_argument("--calls", type=int, default=16, help="sessions of w2 (default: 16)")
    parser.add_argument("--runs", type=int, default=3, help="of each cell (default: 3)")
    parser.add_argument("--quick", action="store_true", help="one run, w1 at 1 and 16; writes no result and no tables")
    parser.add_argument("--print", action="store_true", help="print the tables; write no result and no page")
    parser.add_argument("--tables", action="store_true", help="only write the tables and plots from the last result")
    args = parser.parse_args()
    end_on_sigterm()
    console = Console(soft_wrap=True)
    if args.tables:
        _publish(report.load("llm"), console)
        return 0
    workloads: list[Workload] = [
        name for name in get_args(Workload) if name in args.workloads.split(",") and name != "mixed"
    ]
    concurrency = [int(part) for part in args.concurrency.split(",")]
    try:
        contenders = named(args.peers.split(",")) if args.peers else everybody()
    except ValueError as error:
        parser.error(str(error))
    if busy():
        console.print(f"[yellow]Careful:[/] {busy()}", highlight=False)
    chosen = cells([1, 16], ["w1"], 0) if args.quick else cells(concurrency, workloads, args.calls)
    result = asyncio.run(compare(contenders, chosen, 1 if args.quick else args.runs, console))
    console.print(llm_tables.page(result), markup=False, highlight=False)
    if not (args.quick or args.print):
        console.print(f"result: {report.save('llm', result)}", highlight=False)
        _publish(result, console)
    ours_failed = "parley" in result["failures"] and any(contender.name == "parley" for contender in contenders)
    return 1 if ours_failed else 0


def _publish(result: dict[str, Any], console: Console) -> None:
    report.put_between(report.PAGE, "bench:llm", llm_tables.page(result))
    why_not = llm_tables.plot(result, report.PAGE.with_name(llm_tables.PLOT))
    console.print(why_not or f"tables and plot: {report.PAGE.parent}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
