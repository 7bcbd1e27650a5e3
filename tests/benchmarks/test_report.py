from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import llm_tables, plots
from benchmarks.report import put_between, spread, table


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
            cell("peer", "w2", 16, wall_s=6.0, cached_tokens=0.0, prompt_tokens=100.0, **turns),
        ],
    }


def test_the_page_shows_everybody_and_says_who_is_missing_and_why() -> None:
    page = llm_tables.page(result())
    assert "| Parley (HTTP) | 100 (90–110) | 600 (540–660) |" in page
    assert "| Peer (HTTP) | – | 400 (360–440) |" in page
    assert "| Parley (HTTP) | 4.0 (3.6–4.4) | 101 | 102 | 103 | 104 | 105 | 106 | 50 % |" in page
    assert "| Peer (HTTP) | – | 1.50 | 1.50 |" in page
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
