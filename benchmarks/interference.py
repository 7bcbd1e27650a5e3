"""Who is held up by whom: ``python -m benchmarks.interference``.

Eight replies stream while a prompt of 4,000 tokens arrives: the longest silence in any of them, against the same eight
undisturbed. And how long a cancelled reply keeps its KV blocks, in steps of the engine and in milliseconds.
The result goes to benchmarks/results/interference.json, the tables to docs/performance.md. Takes about six minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from app.config import load_settings
from app.llm.base import ChatMessage, GenerateRequest, Sampling
from app.llm.local import LocalLanguageModel
from benchmarks import report
from benchmarks.client import ServerError, Stream, request_body
from benchmarks.contenders import Contender, Running, folder, named, start
from benchmarks.machine import busy, describe
from benchmarks.measure import percentile
from benchmarks.process import StartFailed, end_on_sigterm
from benchmarks.workloads import Conversation, long_prompt, make

_STREAMS = 8
_STREAM_TOKENS = 500
_LONG_TOKENS = 4000
_UNDER_WAY = 40
"""Pieces after which a stream counts as running smoothly."""
_CANCELS = 200
_PEERS = "ours,vllm,llama.cpp-bf16"
_EXAMPLES = """examples:
  python -m benchmarks.interference
  python -m benchmarks.interference --peers ours --runs 5
  python -m benchmarks.interference --tables          the tables anew from the last result
"""


async def longest_gap(base_url: str, model: str, seed: str, *, disturbed: bool) -> dict[str, float]:
    """One run: the longest gap between pieces of any stream from the moment that all are under way.

    With ``disturbed`` a long prompt arrives at that moment, and only gaps until its first token count; without, those
    until the streams end. Raises ServerError, OSError.
    """
    opened = await asyncio.gather(*(_open(base_url, one, model) for one in make("w1", seed, _STREAMS)))
    streams = list(opened)
    try:
        await asyncio.gather(*(stream.under_way(_UNDER_WAY) for stream in streams))
        began = time.perf_counter()
        figures: dict[str, float] = {}
        until = float("inf")
        if disturbed:
            late = await Stream.open(base_url, request_body(long_prompt(_LONG_TOKENS, seed), 8, model))
            streams.append(late)
            reply = await late.reply(8)
            until = reply.stamps_s[0]
            figures = {"long_ttft_ms": 1000 * reply.first_s, "long_tokens": float(reply.prompt_tokens)}
        replies = await asyncio.gather(*(stream.reply(_STREAM_TOKENS) for stream in opened))
    finally:
        for stream in streams:
            stream.close()
    gaps = [
        later - earlier
        for reply in replies
        for earlier, later in zip(reply.stamps_s, reply.stamps_s[1:], strict=False)
        if later > began and earlier < until
    ]
    # A stream that is over before the long prompt is answered would make its own figure look good.
    ended = min(reply.done_s for reply in replies)
    if disturbed and ended < until:
        figures["ended_early"] = 1.0
    return {**figures, "gap_max_ms": 1000 * max(gaps), "gap_p50_ms": 1000 * percentile(gaps, 50)}


async def _open(base_url: str, conversation: Conversation, model: str) -> Stream:
    messages = [*conversation.opening(), {"role": "user", "content": conversation.turns[0].text}]
    return await Stream.open(base_url, request_body(messages, _STREAM_TOKENS, model))


async def gaps(contenders: Sequence[Contender], runs: int, console: Console) -> list[dict[str, Any]]:
    """A row for each contender that could be measured."""
    rows = []
    for contender in contenders:
        if contender.how != "HTTP" or contender.missing():
            console.print(f"[yellow]–[/] {contender.title}: {contender.missing() or 'has no server'}", highlight=False)
            continue
        try:
            rows.append({"title": contender.title, **await _gaps_of(contender, runs)})
        except (StartFailed, ServerError, OSError, TimeoutError) as error:
            console.print(f"[red]✗[/] {contender.title}: {error}", highlight=False)
            continue
        console.print(f"[green]✓[/] {rows[-1]}", highlight=False)
    return rows


async def _gaps_of(contender: Contender, runs: int) -> dict[str, Any]:
    running: Running = await start(contender)
    base_url: str = getattr(running, "base_url")  # noqa: B009 - only those over HTTP get here
    seed = str(time.time_ns())
    try:
        await running.run("w1", _STREAMS, f"warm-up {seed}")
        quiet, loud = [], []
        for run in range(runs):
            async with asyncio.timeout(180.0):
                quiet.append(await longest_gap(base_url, contender.model, f"{seed} {run} quiet", disturbed=False))
                loud.append(await longest_gap(base_url, contender.model, f"{seed} {run} loud", disturbed=True))
    finally:
        await running.group.stop()
    return {
        "quiet_ms": statistics.median(run["gap_max_ms"] for run in quiet),
        "quiet_p50_ms": statistics.median(run["gap_p50_ms"] for run in quiet),
        "loud_ms": statistics.median(run["gap_max_ms"] for run in loud),
        "long_ttft_ms": statistics.median(run["long_ttft_ms"] for run in loud),
        "long_tokens": loud[0]["long_tokens"],
        "ended_early": any("ended_early" in run for run in loud),
    }


async def cancels(count: int) -> dict[str, float]:
    """Cancel ``count`` replies in mid-stream, seven others running; how long until the worker's books show it."""
    settings = load_settings()
    model = LocalLanguageModel(settings.llm, settings.runtime, folder())
    steps: list[float] = []
    waits: list[float] = []
    async with asyncio.TaskGroup() as group, contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(model.close)
        await model.load()
        others = [group.create_task(_talk_on(model, number)) for number in range(_STREAMS - 1)]
        await asyncio.sleep(1.0)
        for number in range(count):
            spent = await _cancel_one(model, number)
            steps.append(spent[0])
            waits.append(spent[1])
        for other in others:
            other.cancel()
    return {
        "count": float(count),
        "steps_p50": percentile(steps, 50),
        "steps_p99": percentile(steps, 99),
        "steps_max": max(steps),
        "ms_p50": percentile(waits, 50),
        "ms_p99": percentile(waits, 99),
        "ms_max": max(waits),
    }


async def _talk_on(model: LocalLanguageModel, number: int) -> None:
    for round_number in range(10_000):
        request = _request(f"{number} {round_number}", 256)
        async for _ in model.generate(request):
            pass


async def _cancel_one(model: LocalLanguageModel, number: int) -> tuple[float, float]:
    """Steps that began after the cancel had arrived until its blocks were free, and the time in ms."""
    reply = model.generate(_request(f"cancelled {number}", 256))
    for _ in range(3):
        await anext(reply)
    before = await model.stats()
    asked = time.perf_counter()
    await reply.aclose()
    # Commands of a connection keep their order: the worker had taken the cancel when it answers this.
    at_cancel = await model.stats()
    now = at_cancel
    while now.cancelled <= before.cancelled:
        await asyncio.sleep(0.001)
        now = await model.stats()
    return float(now.steps - at_cancel.steps), 1000 * (time.perf_counter() - asked)


def _request(seed: str, tokens: int) -> GenerateRequest:
    [conversation] = make("w1", seed, 1)
    system, user = conversation.opening()[0]["content"], conversation.turns[0].text
    messages = (ChatMessage("system", system), ChatMessage("user", user))
    return GenerateRequest(messages, Sampling(max_tokens=tokens, ignore_eos=True))


def page(result: dict[str, Any]) -> str:
    rows = [
        [
            row["title"],
            f"{row['quiet_p50_ms']:.0f}",
            f"{row['quiet_ms']:.0f}",
            f"{row['loud_ms']:.0f}{' (replies ended first)' if row['ended_early'] else ''}",
            f"{row['long_ttft_ms']:.0f}",
        ]
        for row in result["gaps"]
    ]
    header = [
        "gap between pieces, ms",
        "median, undisturbed",
        "longest, undisturbed",
        "longest, long prompt arrives",
        "its first token, ms",
    ]
    found = result["cancels"]
    cancelled = report.table(
        [f"{found['count']:.0f} cancels to freed blocks", "p50", "p99", "most"],
        [
            [
                "steps begun after the cancel arrived",
                *(f"{found[f'steps_{name}']:.0f}" for name in ("p50", "p99", "max")),
            ],
            ["ms, asked and answered", *(f"{found[f'ms_{name}']:.1f}" for name in ("p50", "p99", "max"))],
        ],
    )
    return "\n\n".join((report.facts(result["machine"]), report.table(header, rows), cancelled))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.interference",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--peers", default=_PEERS, help=f"who is measured, of those over HTTP (default: {_PEERS})")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cancels", type=int, default=_CANCELS)
    parser.add_argument("--quick", action="store_true", help="one run, 20 cancels; writes no result and no tables")
    parser.add_argument("--tables", action="store_true", help="only write the tables from the last result")
    args = parser.parse_args()
    end_on_sigterm()
    console = Console(soft_wrap=True)
    if args.tables:
        report.put_between(report.PAGE, "bench:interference", page(report.load("interference")))
        return 0
    if busy():
        console.print(f"[yellow]Careful:[/] {busy()}", highlight=False)
    result = {
        "machine": describe(),
        "gaps": asyncio.run(gaps(named(args.peers.split(",")), 1 if args.quick else args.runs, console)),
        "cancels": asyncio.run(cancels(20 if args.quick else args.cancels)),
    }
    console.print(page(result), markup=False, highlight=False)
    if not args.quick:
        console.print(f"result: {report.save('interference', result)}", highlight=False)
        report.put_between(report.PAGE, "bench:interference", page(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
