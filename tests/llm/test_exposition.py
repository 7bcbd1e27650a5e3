"""The worker's figures as a scrape shows them, whatever state the worker is in."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import msgspec
import pytest
from prometheus_client import generate_latest

from app.engine.messages import Figures, Spread
from app.errors import StageUnavailable
from app.llm.exposition import WorkerMetrics
from app.llm.figures import COUNTERS, SPREADS, FigureTotals
from app.server.openai.metrics import ApiMetrics
from app.telemetry.metrics import Metrics

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"


def figures(**changed: object) -> Figures:
    numbers = {field.name: 0 for field in msgspec.structs.fields(Figures) if field.name not in SPREADS}
    return Figures(**{**numbers, **changed})  # type: ignore[arg-type]


class ScriptedWorker:
    """Answers, hangs or fails."""

    def __init__(self) -> None:
        self.totals = FigureTotals()
        self.totals.begin_run()
        self.ready = True
        self.answer: Figures | Exception | None = None

    async def stats(self) -> Figures:
        if self.answer is None:
            await asyncio.sleep(3600)
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None
        self.totals.take(self.answer)
        return self.answer


def scraped(metrics: Metrics) -> dict[str, float]:
    lines = metrics.render().decode().splitlines()
    samples = [line.rsplit(" ", 1) for line in lines if line.startswith("parley_llm_")]
    return {name: float(value) for name, value in samples}


async def test_a_scrape_shows_what_the_worker_answers_in_seconds_and_bytes() -> None:
    worker, metrics = ScriptedWorker(), Metrics()
    metrics.add(WorkerMetrics(worker))
    spread = Spread((5.0, 10.0), (2, 3, 1), 60.0)
    worker.answer = figures(waiting=3, blocks_held=7, decode_tokens=40, memory_mb=2.0, step_ms=spread)
    await metrics.refresh()
    found = scraped(metrics)
    assert found["parley_llm_queue_depth"] == 3
    assert found['parley_llm_kv_blocks{state="held"}'] == 7
    assert found["parley_llm_decode_tokens_total"] == 40
    assert found["parley_llm_memory_bytes"] == 2 * 1024 * 1024
    assert found['parley_llm_step_seconds_bucket{le="0.005"}'] == 2
    assert found['parley_llm_step_seconds_bucket{le="0.01"}'] == 5
    assert found['parley_llm_step_seconds_bucket{le="+Inf"}'] == 6
    assert found["parley_llm_step_seconds_sum"] == pytest.approx(0.06)


@pytest.mark.parametrize("trouble", [None, StageUnavailable("gone")], ids=["hangs", "fails"])
async def test_a_worker_that_hangs_or_fails_leaves_the_last_values(trouble: Exception | None) -> None:
    worker, metrics = ScriptedWorker(), Metrics()
    metrics.add(WorkerMetrics(worker))
    worker.answer = figures(decode_tokens=40, running=2)
    await metrics.refresh()
    worker.answer = trouble
    async with asyncio.timeout(5):
        await metrics.refresh()
    assert scraped(metrics)["parley_llm_decode_tokens_total"] == 40
    assert scraped(metrics)["parley_llm_running"] == 2


def test_no_counter_goes_back_over_restarts_and_no_gauge_outlives_its_worker() -> None:
    totals = FigureTotals()
    spread = Spread((1.0,), (4, 1), 9.0)
    for run in range(1, 4):
        totals.begin_run()
        assert totals.latest is None
        for count in (1, 5, 10):
            totals.take(figures(**dict.fromkeys(COUNTERS, count), **dict.fromkeys(SPREADS, spread)))
            assert {totals.counter(name) for name in COUNTERS} == {10.0 * (run - 1) + count}
        assert totals.spread("step_ms") == Spread((1.0,), (4 * run, run), 9.0 * run)
    totals.begin_run()
    totals.begin_run()
    assert totals.counter("steps") == 30, "a start that never answered adds nothing"
    assert totals.runs == 5


def test_all_figures_are_exported_or_meant_not_to_be() -> None:
    elsewhere = {"running", "waiting", "sessions", "blocks_free", "blocks_cached", "blocks_held", "step_age_s"}
    not_exported = {"blocks_total", "last_step_ms"}  # the sum of the states; the histogram says more
    fields = {field.name for field in msgspec.structs.fields(Figures)}
    assert fields == {*COUNTERS, *SPREADS, *elsewhere, *not_exported, "memory_mb"}


def test_every_metric_is_in_the_documentation_and_nothing_else_is() -> None:
    metrics = Metrics()
    metrics.add(WorkerMetrics(ScriptedWorker()))
    ApiMetrics(metrics)
    exported = {
        name if kind != "counter" or name.endswith("_total") else f"{name}_total"
        for name, kind in re.findall(r"^# TYPE (parley_\w+) (\w+)$", generate_latest(metrics.registry).decode(), re.M)
        if not name.endswith("_created")
    }
    documented = set(re.findall(r"^\| `(parley_\w+)", DOCS.read_text("utf-8"), re.M))
    assert documented == exported


def test_contexts_that_were_cut_are_counted() -> None:
    metrics = Metrics()
    metrics.observe({"type": "parley.context", "turns": 3, "summary": "", "complete": False})
    metrics.observe({"type": "parley.context", "turns": 3, "summary": "x", "complete": True})
    text = metrics.render().decode()
    assert 'parley_context_cuts_total{summarised="false"} 1.0' in text
    assert 'parley_context_cuts_total{summarised="true"} 1.0' in text
