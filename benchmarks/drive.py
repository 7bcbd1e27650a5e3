"""Drives an OpenAI-compatible server with a workload and prints the figures as JSON, a line per concurrency.

python -m benchmarks.drive --port 8080 --workload w1 --concurrency 1,4,16,32 --runs 3
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

from benchmarks.client import chat
from benchmarks.measure import Figures, Reply, fold, summarise
from benchmarks.workloads import Conversation, make


async def drive(
    base_url: str, conversations: list[Conversation], *, model: str = "default", session_prefix: str | None = None
) -> list[list[Reply]]:
    """Hold all conversations at once; each has a session id of its own if there is a prefix for it."""
    return await asyncio.gather(
        *(
            _hold(base_url, conversation, model, f"{session_prefix}-{number}" if session_prefix else None)
            for number, conversation in enumerate(conversations)
        )
    )


async def _hold(base_url: str, conversation: Conversation, model: str, session: str | None) -> list[Reply]:
    messages = conversation.opening()
    replies: list[Reply] = []
    for turn in conversation.turns:
        messages.append({"role": "user", "content": turn.text})
        reply = await chat(base_url, messages, turn.reply_tokens, model=model, session=session)
        messages.append({"role": "assistant", "content": reply.text})
        replies.append(reply)
    return replies


async def measured(
    base_url: str, conversations: list[Conversation], *, model: str = "default", session_prefix: str | None = None
) -> Figures:
    """The figures of one run, and what the client itself took: ``client_cpu_us`` of processor time per token."""
    before_s = time.process_time()
    replies = await drive(base_url, conversations, model=model, session_prefix=session_prefix)
    spent_s = time.process_time() - before_s
    figures = summarise(replies)
    figures["client_cpu_us"] = 1e6 * spent_s / figures["tokens"]
    return figures


async def _main(args: argparse.Namespace) -> None:
    base_url = f"http://{args.host}:{args.port}"
    began = time.time_ns()
    await drive(base_url, make("w1", f"warm-{began}", 4), model=args.model)
    for concurrency in (int(part) for part in args.concurrency.split(",")):
        runs = []
        for run in range(args.runs):
            seed = f"{began}-{concurrency}-{run}"
            prefix = seed if args.workload in ("w2", "turns") and args.sessions else None
            runs.append(
                await measured(
                    base_url, make(args.workload, seed, concurrency), model=args.model, session_prefix=prefix
                )
            )
        folded = {name: [round(value, 2) for value in spread] for name, spread in fold(runs).items()}
        print(
            json.dumps({"workload": args.workload, "concurrency": concurrency, "runs": args.runs, **folded}), flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.drive",
        description="Figures of a running OpenAI-compatible server: lowest, median and highest of the runs.",
        epilog="examples:\n"
        "  python -m benchmarks.drive --port 8080\n"
        "  python -m benchmarks.drive --port 8080 --workload w2 --concurrency 16 --runs 5\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", default="default", help="what the server calls its model")
    parser.add_argument("--workload", choices=("w1", "w2", "turns", "mixed"), default="w1")
    parser.add_argument("--concurrency", default="1,4,16,32", help="conversations at once, several with commas")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-sessions", dest="sessions", action="store_false", help="send no x-session-id in w2")
    asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
