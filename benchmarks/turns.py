"""Puts the figures of ``python -m app bench turns`` into docs/performance.md: ``python -m benchmarks.turns``."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.machine import describe


def page(result: dict[str, Any]) -> str:
    measured, summary = result["turns"], result["turns"]["summary"]
    cores = (
        f"{measured['own_cores']:.2f} with Parley and the benchmark, {measured['other_cores']:.2f} with anything else"
    )
    held = f"{summary['cases']} cases, {measured['jobs']} at a time, {measured['wall_s']:.0f} s; {summary['passed']} passed."
    parts = [
        report.facts(result["machine"] | {"cores kept busy": cores}),
        held,
        report.table(["", "p50, ms", "p95, ms", "worst, ms", "cases"], _times(summary)),
        report.table(["", "cases", "of", "share"], _faults(summary)),
        _words(summary),
        report.table(
            ["by category", "passed", "cases", "end p50, ms", "end p95, ms", "answer p50, ms"], _categories(measured)
        ),
        _failed(measured["cases"]),
        "".join(f"Left out: {absent}\n" for absent in measured["left_out"]),
    ]
    return "\n\n".join(part for part in parts if part)


def _times(summary: Mapping[str, Any]) -> list[list[str]]:
    rows = {
        "end of turn: last sample of speech to declared over": "endpoint_ms",
        "words told to the client": "told_ms",
        "voice to voice: to the first sample of the answer": "voice_to_voice_ms",
        "interrupted: first sample of it to 15 dB down": "stop_ducked_ms",
        "interrupted: to silence": "stop_silent_ms",
        "not interrupted: kept silent before it went on": "held_ms",
        "won by an early reply": "early_ms",
        "clock late at its worst": "lag_ms",
    }
    return [
        [name, *(f"{spread[figure]:.0f}" for figure in ("p50", "p95", "worst")), str(spread["count"])]
        for name, key in rows.items()
        if (spread := summary[key]) is not None
    ]


def _faults(summary: Mapping[str, Any]) -> list[list[str]]:
    rows = {
        "false cut-ins (heard before the end, or a turn taken for two)": "false_cut_ins",
        "missed ends (later than 1.5 s, or never)": "missed_ends",
        "unanswered": "unanswered",
        "false interruptions": "false_interruptions",
        "missed interruptions": "missed_interruptions",
        "hallucinated turns": "hallucinated_turns",
        "turns with an early reply": "early_turns",
    }
    return [
        [name, str(share["count"]), str(share["among"]), f"{100 * share['count'] / max(1, share['among']):.1f} %"]
        for name, key in rows.items()
        if (share := summary[key])
    ]


def _words(summary: Mapping[str, Any]) -> str:
    words = summary["words"]
    errors = f"Of {words['said']} words said without noise {words['errors']} were wrong, {words['lost']} of them lost."
    return f"{errors} Early replies wasted {summary['wasted_tokens']} tokens."


def _categories(measured: Mapping[str, Any]) -> list[list[str]]:
    def median(spread: Mapping[str, Any] | None, figure: str = "p50") -> str:
        return "–" if spread is None else f"{spread[figure]:.0f}"

    return [
        [
            name,
            str(summary["passed"]),
            str(summary["cases"]),
            median(summary["endpoint_ms"]),
            median(summary["endpoint_ms"], "p95"),
            median(summary["voice_to_voice_ms"]),
        ]
        for name, summary in measured["categories"].items()
    ]


def _failed(cases: list[dict[str, Any]]) -> str:
    lines = [
        f"- `{case['name']}`: " + "; ".join(f"{fault}: {what}" for fault, what in case["faults"])
        for case in cases
        if case["faults"]
    ]
    return "\n".join(["Failed:", "", *lines]) if lines else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.turns", description=__doc__)
    parser.add_argument("--tables", action="store_true", help="only write the tables from the last result")
    args = parser.parse_args()
    if not args.tables:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "turns.json"
            command = [sys.executable, "-m", "app", "bench", "turns", "--out", str(out)]
            done = subprocess.run(command, check=False, cwd=report.ROOT)
            if not out.exists():
                return done.returncode
            report.save("turns", {"machine": describe(), "turns": _slim(json.loads(out.read_text("utf-8")))})
    text = page(report.load("turns"))
    print(text)
    report.put_between(report.PAGE, "bench:turns", text)
    return 0


def _slim(measured: dict[str, Any]) -> dict[str, Any]:
    """Without what nobody looks up later."""
    for case in measured["cases"]:
        case.pop("timeline", None)
    return measured


if __name__ == "__main__":
    sys.exit(main())
