"""Where a step of the native runner spends its time, beside the linear layers alone: ``python -m benchmarks.step``.

The bound is what oneDNN's prepacked bf16 products of the same shapes take, with nothing between them: no attention, no
norms, no sampling, no server. From it follows how many tokens a second W1 could have at most on that road.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from app.engine import lean
from app.engine.lean import LeanModel
from app.engine.messages import SamplingSpec
from app.engine.native.bindings import BLOCK, STAGES, Kernels
from app.engine.native.build import library
from app.engine.native.runner import NativeRunner
from app.engine.sequence import Chunk, Sequence
from benchmarks import report
from benchmarks.contenders import THREADS, folder
from benchmarks.machine import describe

ROWS = (1, 4, 8, 16, 32)
CONTEXT = 150
"""Tokens before the one that is decoded: the middle of a W1 reply."""
PROMPT = 100
_REPLY = 64
_CALLS = 16
_REPEATS = 30


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step", description=__doc__)
    parser.add_argument("--tables", action="store_true", help="only write the tables from the last result")
    if not parser.parse_args().tables:
        report.save("step", measure())
    text = page(report.load("step"))
    print(text)
    report.put_between(report.PAGE, "bench:step", text)
    return 0


def measure() -> dict[str, Any]:
    """Milliseconds, medians: linear layers alone, and whole steps by kind of stage, for each number of rows."""
    machine = describe()
    torch.set_num_threads(THREADS)
    model = AutoModelForCausalLM.from_pretrained(folder(), dtype=torch.bfloat16).eval().requires_grad_(False)
    plan = lean.read(model, 4096)
    linears = {rows: _median_ms(_linears(plan, rows)) for rows in (*ROWS, PROMPT)}
    steps: dict[str, dict[int, dict[str, float]]] = {}
    for name in ("bf16", "int8"):
        blocks = max(ROWS) * -(-(CONTEXT + 1) // BLOCK)
        runner = NativeRunner(Kernels(library()), plan, blocks, THREADS, int8=name == "int8")
        steps[name] = {rows: _stages(runner, _decodes(rows)) for rows in ROWS}
        steps[name][PROMPT] = _stages(runner, [Chunk(_sequence(0, PROMPT), 0, PROMPT)])
    return {"machine": machine, "threads": THREADS, "linears": linears, "steps": steps}


def page(result: dict[str, Any]) -> str:
    linears = {int(rows): ms for rows, ms in result["linears"].items()}
    bf16 = {int(rows): stages for rows, stages in result["steps"]["bf16"].items()}
    int8 = {int(rows): stages for rows, stages in result["steps"]["int8"].items()}
    header = ["rows", "linear layers alone (oneDNN)", "whole step, bf16", "whole step, int8", *STAGES]
    rows = [
        [
            f"{number} replies" if number != PROMPT else f"{PROMPT} of a prompt",
            f"{linears[number]:.1f}",
            f"{bf16[number]['whole']:.1f}",
            f"{int8[number]['whole']:.1f}",
            *(f"{bf16[number][stage]:.2f}" for stage in STAGES),
        ]
        for number in (*ROWS, PROMPT)
    ]
    bound = bound_tokens_per_second(linears[_CALLS], linears[PROMPT])
    ours = bound_tokens_per_second(bf16[_CALLS]["whole"], bf16[PROMPT]["whole"])
    return "\n\n".join(
        (
            report.facts(result["machine"]),
            f"Milliseconds with {result['threads']} threads, median of {_REPEATS}; the columns after the two whole steps "
            "are the parts of the bf16 step.",
            report.table(header, rows),
            f"W1 at {_CALLS} conversations, from these figures: at most **{bound:,.0f} tokens per second** with the linear "
            f"layers alone, **{ours:,.0f}** with whole steps and nothing between them.",
        )
    )


def bound_tokens_per_second(decode_ms: float, prompt_ms: float) -> float:
    """If all prompts are computed one after the other and then all replies are decoded together."""
    return 1000.0 * _CALLS * _REPLY / (_CALLS * prompt_ms + _REPLY * decode_ms)


def _linears(plan: LeanModel, rows: int) -> Callable[[], None]:
    mkldnn = torch.ops.mkldnn
    weights = [weight for layer in plan.layers for weight in (layer.qkv, layer.out, layer.gate_up, layer.down)]
    packed = [mkldnn._reorder_linear_weight(weight.detach(), rows) for weight in weights]
    head = mkldnn._reorder_linear_weight(plan.head.detach(), rows)
    inputs = {width: torch.randn(rows, width).bfloat16() for width in (plan.hidden, plan.inner)}
    # Of a prompt only the last row goes through the head.
    last = inputs[plan.hidden][: rows if rows in ROWS else 1]

    def run() -> None:
        for weight, packed_weight in zip(weights, packed, strict=True):
            mkldnn._linear_pointwise(inputs[weight.shape[1]], packed_weight, None, "none", [], "")
        mkldnn._linear_pointwise(last, head, None, "none", [], "")

    return run


def _sequence(number: int, length: int) -> Sequence:
    each = -(-(CONTEXT + 1) // BLOCK)
    blocks = list(range(number * each, (number + 1) * each))
    return Sequence(number, [5] * length, length, SamplingSpec(), 0, 0.0, blocks=blocks)


def _decodes(rows: int) -> list[Chunk]:
    return [Chunk(_sequence(number, CONTEXT + 1), CONTEXT, 1) for number in range(rows)]


def _stages(runner: NativeRunner, chunks: list[Chunk]) -> dict[str, float]:
    runner.run(chunks)
    before = runner.spent_s()
    whole = _median_ms(lambda: runner.run(chunks))
    share = {stage: runner.spent_s()[stage] - before[stage] for stage in STAGES}
    total = sum(share.values())
    return {"whole": whole, **{stage: whole * spent / total for stage, spent in share.items()}}


@torch.inference_mode()
def _median_ms(run: Callable[[], object]) -> float:
    run()
    taken: list[float] = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        run()
        taken.append(1000.0 * (time.perf_counter() - began))
    return statistics.median(taken)


if __name__ == "__main__":
    sys.exit(main())
