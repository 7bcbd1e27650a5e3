from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import before_after, interference, llm_tables, plots, quality
from benchmarks.report import PAGE, put_between, spread, table


def test_a_table_replaces_what_stood_between_its_marks_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- /a -->\nafter\n<!-- b -->\n<!-- /b -->\n", "utf-8")
    put_between(page, "a", "new\n")
    put_between(page, "a", "newer")
    assert page.read_text("utf-8") == "before\n<!-- a -->\nnewer\n<!-- /a -->\nafter\n<!-- b -->\n<!-- /b -->\n"
    with pytest.raises(ValueError, match="<!-- c -->"):
        put_between(page, "c", "text")
    assert "newer" in page.read_text("utf-8")


def test_a_spread_shows_its_ends_only_where_they_differ() -> None:
    assert spread((1.0, 2.0, 3.0), 1) == "2.0 (1.0–3.0)"
    assert spread((1234.4, 1234.4, 1234.4)) == "1,234"
    assert spread(None) == "–"


def test_a_table_has_as_many_columns_as_its_header() -> None:
    assert table(["a", "b"], [["x", "1"]]).splitlines() == ["| a | b |", "| --- | ---: |", "| x | 1 |"]


def cell(contender: str, workload: str, concurrency: int, **figures: float) -> dict[str, object]:
    spreads = {name: [value * 0.9, value, value * 1.1] for name, value in figures.items()}
    return {"contender": contender, "workload": workload, "concurrency": concurrency, "figures": spreads}


def result() -> dict[str, object]:
    turns = {f"ttft_turn{turn}_p50_ms": 100.0 + turn for turn in range(1, 7)}
    described = {"how": "HTTP", "version": "1", "command": "serve", "environment": ""}
    return {
        "machine": {"processor": "two cores"},
        "runs": 3,
        "contenders": {
            "parley": {"title": "Parley", **described},
            "peer": {"title": "Peer", **described},
            "gone": {"title": "Gone", **described, "command": ""},
        },
        "failures": {"gone": "not installed: run benchmarks/peers/gone.sh"},
        "cells": [
            cell("parley", "w1", 1, tok_s=100.0, ttft_p50_ms=20.0),
            cell("parley", "w1", 16, tok_s=600.0, ttft_p50_ms=200.0),
            cell("peer", "w1", 16, tok_s=400.0, ttft_p50_ms=300.0),
            cell("parley", "w2", 16, wall_s=4.0, cached_tokens=50.0, prompt_tokens=100.0, **turns),
            cell("parley", "turns", 1, **turns),
            cell("peer", "w2", 16, wall_s=6.0, cached_tokens=0.0, prompt_tokens=100.0, **turns),
        ],
    }


def test_the_page_shows_everybody_and_says_who_is_missing_and_why() -> None:
    page = llm_tables.page(result())
    assert "| Parley (HTTP) | 100 (90–110) | 600 (540–660) |" in page
    assert "| Peer (HTTP) | – | 400 (360–440) |" in page
    assert "| Parley (HTTP) | 4.0 (3.6–4.4) | 101 | 102 | 103 | 104 | 105 | 106 | 50 % |" in page
    assert "| Peer (HTTP) | – | 1.50 | 1.50 |" in page
    assert "| Parley (HTTP) | 101 | 102 | 103 | 104 | 105 | 106 | 1.05 |" in page
    assert "- gone: not installed: run benchmarks/peers/gone.sh" in page


def test_a_plot_is_drawn_or_it_is_said_why_not(tmp_path: Path) -> None:
    path = tmp_path / "plot.svg"
    why_not = llm_tables.plot(result(), path)
    assert bool(why_not) != path.exists()
    if not why_not:
        assert path.read_text("utf-8").startswith("<?xml")


def test_a_plot_without_matplotlib_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert "pip install" in plots.lines(tmp_path / "plot.svg", {"a": {"x": [(1, 1)]}}, "x")


def test_before_and_after_are_told_in_percent_of_before() -> None:
    def row(contender: str, **figures: float) -> dict[str, object]:
        return {"contender": contender, "users": 16, "figures": {name: [value] * 3 for name, value in figures.items()}}

    page = before_after.page(
        {
            "machine": {"processor": "two cores"},
            "titles": {"one-at-a-time": "one", "static-batches": "static", "parley": "Parley"},
            "cells": [
                row("one-at-a-time", tok_s=40.0, latency_mean_s=8.0, latency_p99_s=16.0),
                row("static-batches", tok_s=100.0, latency_mean_s=4.0, latency_p99_s=5.0),
                row("parley", tok_s=500.0, latency_mean_s=1.0, latency_p99_s=2.0),
            ],
        }
    )
    assert "| 16 users: Parley | 500 | 1.00 | 2.00 | – | – |" in page
    assert "| 16 | +1150 % | -88 % | -88 % | +400 % | -75 % | -60 % |" in page


def test_a_gap_that_ended_before_the_long_prompt_was_answered_is_marked() -> None:
    row = {"title": "Parley", "quiet_p50_ms": 12.0, "quiet_ms": 30.0, "loud_ms": 90.0, "long_ttft_ms": 2500.0}
    names = ("steps_p50", "steps_p99", "steps_max", "ms_p50", "ms_p99", "ms_max")
    result = {
        "machine": {},
        "gaps": [{**row, "ended_early": False}, {**row, "title": "Peer", "ended_early": True}],
        "cancels": {"count": 200.0, **dict.fromkeys(names, 1.0)},
    }
    page = interference.page(result)
    assert "| Parley | 12 | 30 | 90 | 2500 |" in page
    assert "| Peer | 12 | 30 | 90 (replies ended first) | 2500 |" in page
    assert "| steps begun after the cancel arrived | 1 | 1 | 1 |" in page


def test_every_benchmark_has_its_place_on_the_page() -> None:
    text = PAGE.read_text("utf-8")
    for name in ("llm", "before-after", "interference", "quality"):
        assert text.count(f"<!-- bench:{name} -->") == text.count(f"<!-- /bench:{name} -->") == 1


def test_the_quality_table_compares_with_float32() -> None:
    def mode(name: str, perplexity: float, agreement: float) -> dict[str, object]:
        return {
            "quantization": name,
            "runner": "native",
            "tokens": 3072,
            "perplexity": perplexity,
            "agreement": agreement,
        }

    page = quality.page({"machine": {}, "modes": [mode("none", 20.0, 1.0), mode("int8", 20.5, 0.97)]})
    assert "3,072 tokens scored." in page
    assert "| `int8` | native | 20.500 | +2.5 % | 97.0 % |" in page
