"""The tables and the plot of benchmarks.llm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import plots
from benchmarks.measure import Spread
from benchmarks.report import facts, spread, table
from benchmarks.workloads import EQUAL_NEW_TOKENS

PLOT = "llm-throughput.svg"
_TURNS = range(1, 7)
_CLOSE = 1.3
"""Differences below 30 % between contenders are within what this kind of machine varies by."""


def page(result: dict[str, Any]) -> str:
    """All that stands between the markers."""
    runs = result["runs"]
    w1 = f"W1, tokens per second at so many conversations at once (median of {runs} runs; lowest–highest):"
    equal = f"A lone conversation whose turns have {EQUAL_NEW_TOKENS} new tokens each, first token in ms:"
    w1_there = bool(_levels(result))
    parts = [
        ("", facts(result["machine"])),
        (w1, throughput(result) if w1_there else ""),
        ("W1 at 16 conversations:", _w1_times(result, 16)),
        ("W2, 16 calls of six turns:", _w2(result)),
        (equal, _equal_turns(result)),
        ("", f"![Tokens per second and time to first token against conversations at once]({PLOT})" if w1_there else ""),
        ("", _ratios(result)),
        ("Versions and commands:", _commands(result)),
        ("Not measured:", facts(result["failures"])),
    ]
    return "\n\n".join(f"{title}\n\n{text}".strip() for title, text in parts if text)


def throughput(result: dict[str, Any]) -> str:
    levels = _levels(result)
    rows = []
    for name in _present(result, "w1"):
        cells = [spread(_figure(result, name, "w1", level, "tok_s")) for level in levels]
        rows.append([_title(result, name), *cells])
    return table(["tokens per second", *(str(level) for level in levels)], rows)


def plot(result: dict[str, Any], path: Path) -> str:
    """Returns why there is none, or ""."""
    names = _present(result, "w1")

    def series(figure: str) -> plots.Series:
        found: dict[str, list[tuple[float, float]]] = {}
        for name in names:
            for level in _levels(result):
                values = _figure(result, name, "w1", level, figure)
                if values is not None:
                    found.setdefault(_title(result, name), []).append((level, values[1]))
        return found

    panels = {"tokens per second": series("tok_s"), "first token, ms (median)": series("ttft_p50_ms")}
    if not names:
        return "no plot: nothing was measured with w1"
    return plots.lines(path, panels, "conversations at once", logarithmic=("first token, ms (median)",))


def _w1_times(result: dict[str, Any], level: int) -> str:
    columns = {
        "first token p50, ms": "ttft_p50_ms",
        "p95": "ttft_p95_ms",
        "between pieces p50, ms": "gap_p50_ms",
        "p95 ": "gap_p95_ms",
        "per token p50, ms": "token_p50_ms",
        "peak memory, MiB": "peak_mb",
    }
    rows = []
    for name in _present(result, "w1"):
        values = [_figure(result, name, "w1", level, figure) for figure in columns.values()]
        if any(values):
            rows.append([_title(result, name), *(spread(value) for value in values)])
    return table(["", *columns], rows) if rows else ""


def _w2(result: dict[str, Any]) -> str:
    rows = []
    for name in _present(result, "w2"):
        level = next(cell["concurrency"] for cell in result["cells"] if cell["workload"] == "w2")
        turns = [_figure(result, name, "w2", level, f"ttft_turn{turn}_p50_ms") for turn in _TURNS]
        wall = spread(_figure(result, name, "w2", level, "wall_s"), 1)
        reused = _figure(result, name, "w2", level, "cached_tokens")
        asked = _figure(result, name, "w2", level, "prompt_tokens")
        share = f"{100 * reused[1] / asked[1]:.0f} %" if reused and asked and asked[1] and reused[1] else "–"
        rows.append([_title(result, name), wall, *(f"{turn[1]:.0f}" if turn else "–" for turn in turns), share])
    header = ["", "wall, s", *(f"turn {turn}: first token, ms" if turn == 1 else f"{turn}" for turn in _TURNS)]
    return table([*header, "prompt tokens reused"], rows) if rows else ""


def _equal_turns(result: dict[str, Any]) -> str:
    rows = []
    for name in _present(result, "turns"):
        turns = [_only(result, name, "turns", f"ttft_turn{turn}_p50_ms") for turn in _TURNS]
        last = f"{turns[-1][1] / turns[0][1]:.2f}" if turns[0] and turns[-1] else "–"
        rows.append([_title(result, name), *(f"{turn[1]:.0f}" if turn else "–" for turn in turns), last])
    return table(["", *(f"turn {turn}" for turn in _TURNS), "last to first"], rows) if rows else ""


def _ratios(result: dict[str, Any]) -> str:
    """How Parley stands to each peer; above 1 is in Parley's favour."""
    if "parley" not in _present(result, "w1"):
        return ""
    rows = []
    for name in _present(result, "w1"):
        if name == "parley":
            continue
        cells = []
        for level in _levels(result):
            ours, theirs = (_figure(result, who, "w1", level, "tok_s") for who in ("parley", name))
            cells.append(f"{ours[1] / theirs[1]:.2f}" if ours and theirs else "–")
        walls = [_only(result, who, "w2", "wall_s") for who in (name, "parley")]
        cells.append(f"{walls[0][1] / walls[1][1]:.2f}" if walls[0] and walls[1] else "–")
        rows.append([_title(result, name), *cells])
    if not rows:
        return ""
    header = ["Parley against", *(f"W1 x{level}" for level in _levels(result)), "W2 wall"]
    note = f"Ratios of medians; above 1 Parley is faster. Less than {100 * (_CLOSE - 1):.0f} % apart may be chance on a shared machine."
    return f"{note}\n\n{table(header, rows)}"


def _commands(result: dict[str, Any]) -> str:
    lines = []
    for contender in result["contenders"].values():
        if contender["command"]:
            environment = f"{contender['environment']} " if contender["environment"] else ""
            lines.append(
                f"- {contender['title']} ({contender['how']}): {contender['version']}\n"
                f"  `{environment}{contender['command']}`"
            )
    return "\n".join(lines)


def _title(result: dict[str, Any], name: str) -> str:
    contender = result["contenders"][name]
    return f"{contender['title']} ({contender['how']})"


def _present(result: dict[str, Any], workload: str) -> list[str]:
    """Names that have figures for a workload, in the order of the contenders."""
    found = {cell["contender"] for cell in result["cells"] if cell["workload"] == workload}
    return [name for name in result["contenders"] if name in found]


def _levels(result: dict[str, Any]) -> list[int]:
    return sorted({int(cell["concurrency"]) for cell in result["cells"] if cell["workload"] == "w1"})


def _figure(result: dict[str, Any], name: str, workload: str, level: int, figure: str) -> Spread | None:
    for cell in result["cells"]:
        if (cell["contender"], cell["workload"], cell["concurrency"]) == (name, workload, level):
            values = cell["figures"].get(figure)
            return (values[0], values[1], values[2]) if values else None
    return None


def _only(result: dict[str, Any], name: str, workload: str, figure: str) -> Spread | None:
    """Of a workload that is run at one concurrency only."""
    levels = [cell["concurrency"] for cell in result["cells"] if cell["workload"] == workload]
    return _figure(result, name, workload, levels[0], figure) if levels else None
