"""Results as files, and tables put into a page between two comments that only the benchmarks may write between."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import Spread

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "performance.md"


def save(name: str, result: Mapping[str, Any]) -> Path:
    """``benchmarks/results/<name>.json``."""
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path


def load(name: str) -> dict[str, Any]:
    """Raises FileNotFoundError if that benchmark never ran."""
    result: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return result


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown; the first column is text, the others are figures."""
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def spread(values: Spread | None, digits: int = 0) -> str:
    """The median, and the lowest and highest where they differ; a dash where there is no figure."""
    if values is None:
        return "–"
    low, middle, high = (f"{value:,.{digits}f}" for value in values)
    return middle if low == high else f"{middle} ({low}–{high})"


def facts(described: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in described.items())


def put_between(page: Path, name: str, text: str) -> None:
    """Replace what stands between ``<!-- name -->`` and ``<!-- /name -->``. Raises ValueError if they are not there."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, opened, rest = page.read_text("utf-8").partition(opening)
    _, closed, after = rest.partition(closing)
    if not opened or not closed:
        raise ValueError(f"{page} has no pair {opening} ... {closing} to put the table between")
    page.write_text(f"{before}{opening}\n{text.strip()}\n{closing}{after}", "utf-8")
