"""Puts the table of ``python -m app bench quality`` into docs/performance.md: ``python -m benchmarks.quality``."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from benchmarks import report
from benchmarks.machine import describe


def page(result: dict[str, Any]) -> str:
    modes = result["modes"]
    rows = [
        [
            f"`{mode['quantization']}`",
            mode["runner"],
            f"{mode['perplexity']:.3f}",
            f"{100 * (mode['perplexity'] / modes[0]['perplexity'] - 1):+.1f} %",
            f"{100 * mode['agreement']:.1f} %",
        ]
        for mode in modes
    ]
    header = ["llm.quantization", "runner", "perplexity", "against float32", "same likeliest token as float32"]
    scored = f"{modes[0]['tokens']:,} tokens scored."
    return "\n\n".join((report.facts(result["machine"]), scored, report.table(header, rows)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("--tables", action="store_true", help="only write the table from the last result")
    args = parser.parse_args()
    if not args.tables:
        command = [sys.executable, "-m", "app", "bench", "quality", "--json"]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, cwd=report.ROOT)
        if done.returncode:
            return done.returncode
        report.save("quality", {"machine": describe(), "modes": json.loads(done.stdout)})
    text = page(report.load("quality"))
    print(text)
    report.put_between(report.PAGE, "bench:quality", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
