"""Puts the tables of ``python -m app bench voice`` into docs/performance.md: ``python -m benchmarks.voice``."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from benchmarks import report
from benchmarks.machine import busy, describe

_PEER = {
    1: ("1,225", "2,722", "0 of 12", "594–623", "0.8 GB"),
    2: ("1,814", "3,983", "0 of 24", "–", "1.3 GB"),
    4: ("2,540", "5,292", "0 of 48", "–", "2.0 GB"),
    8: ("9,000–10,000", "–", "39 of 96", "–", "3.4 GB"),
}
"""Pipecat, measured once on the same kind of machine; the page says how it was built."""


def page(result: dict[str, Any]) -> str:
    runs = result["runs"]
    return "\n\n".join(
        (
            report.facts(result["machine"]),
            "Voice to voice, ms; “stop” to 15 dB quieter and to silence, median and longest, ms; memory at its peak:",
            _overview(runs),
            "Where the time goes (medians, ms; recognition hides behind the wait for the end of the turn):",
            _waterfall(runs),
            "What it takes, and how even the sound is:",
            _costs(runs),
            "Pipecat, measured once on the same kind of machine:",
            _peer(),
        )
    )


def _overview(runs: list[dict[str, Any]]) -> str:
    header = ["callers", "p50", "p95", "longest", "unanswered", "words wrong", "quieter", "silent", "obeyed", "memory"]
    rows = []
    for run in runs:
        row, server = run["figures"], run["server"]
        voice = row["voice_to_voice_ms"]
        rows.append(
            [
                str(row["sessions"]),
                *(_ms(voice and voice[name]) for name in ("p50", "p95", "max")),
                f"{row['turns'] - row['answered']} of {row['turns']}",
                f"{100 * row['word_error_rate']:.1f} %",
                _p50_max(row["ducked_ms"]),
                _p50_max(row["silent_ms"]),
                f"{row['stops_obeyed']} of {row['stops']}",
                f"{server['rss_peak_mb'] / 1000:.1f} GB",
            ]
        )
    return report.table(header, rows)


def _waterfall(runs: list[dict[str, Any]]) -> str:
    stages = list(dict.fromkeys(stage for run in runs for stage in run["figures"]["waterfall_ms"]))
    rows = [[f"`{stage}`", *(_ms(run["figures"]["waterfall_ms"].get(stage)) for run in runs)] for stage in stages]
    early = [run["figures"]["early_ms"] for run in runs]
    rows.append(["won by early replies, where they won", *(_ms(one and one["p50"]) for one in early)])
    rows.append(["tokens of early replies wasted", *(f"{run['figures']['early_wasted_tokens']:.0f}" for run in runs)])
    return report.table(["callers", *(str(run["figures"]["sessions"]) for run in runs)], rows)


def _costs(runs: list[dict[str, Any]]) -> str:
    def cells(name: str, cell: Any) -> list[str]:
        return [name, *(cell(run) for run in runs)]

    rows = [
        cells("gaps: packets late", lambda run: str(run["figures"]["gaps"].get("late", 0))),
        cells("gaps: no sound ready", lambda run: str(run["figures"]["gaps"].get("dry", 0))),
        cells("longest gap, ms", lambda run: _ms(run["figures"]["longest_gap_ms"])),
        cells("no sound ready in all, ms", lambda run: _ms(run["server"]["underrun_ms"])),
        cells("cut-ins", lambda run: str(run["figures"]["cut_ins"])),
        cells("cores: front end", lambda run: f"{run['server']['front_end_cores']:.2f}"),
        cells("cores: LLM worker", lambda run: f"{run['server']['worker_cores']:.2f}"),
        cells("cores: callers", lambda run: f"{run['run']['cpu_s'] / run['run']['wall_s']:.2f}"),
        cells("cores: other processes", lambda run: f"{run['server']['other_cores']:.2f}"),
        cells("event loop lag, ms: median of the largest in 10 s", lambda run: _ms(run["server"]["loop_lag_p50_ms"])),
        cells("event loop lag, ms: largest", lambda run: _ms(run["server"]["loop_lag_max_ms"])),
        cells("callers' packets left late, p95, ms", lambda run: f"{run['run']['late_p95_ms']:.1f}"),
        cells("resident memory at the end, MiB", lambda run: f"{run['server']['rss_end_mb']:,.0f}"),
        cells("the same, shared pages once, MiB", lambda run: f"{run['server']['pss_end_mb']:,.0f}"),
    ]
    return report.table(["callers", *(str(run["figures"]["sessions"]) for run in runs)], rows)


def _peer() -> str:
    header = ["callers", "p50", "p95", "unanswered", "“stop” to silence", "memory"]
    return report.table(header, [[str(callers), *figures] for callers, figures in _PEER.items()])


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _p50_max(values: dict[str, float] | None) -> str:
    return "–" if values is None else f"{values['p50']:,.0f} ({values['max']:,.0f})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.voice", description=__doc__)
    parser.add_argument("--sessions", default="1,2,4,8")
    parser.add_argument("--tables", action="store_true", help="only write the tables from the last result")
    args = parser.parse_args()
    if not args.tables:
        if warning := busy():
            print(f"warning: {warning}", file=sys.stderr)
        machine = describe()
        raw = report.RESULTS / "voice.json"
        raw.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "app", "bench", "voice", "--sessions", args.sessions, "--out", str(raw)]
        # 1: turns were left unanswered, which is a result.
        if (status := subprocess.run(command, check=False, cwd=report.ROOT).returncode) not in (0, 1):
            return status
        runs: list[dict[str, Any]] = json.loads(raw.read_text("utf-8"))
        for run in runs:
            del run["run"]["turns"]  # hundreds; the figures are made of them
        report.save("voice", {"machine": machine, "runs": runs})
    report.put_between(report.PAGE, "bench:voice", page(report.load("voice")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
