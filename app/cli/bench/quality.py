"""What a quantization of the language model costs: perplexity, and agreement with float32, on an English text.

The text is read through the runner that serves; see benchmarks/ for speed.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from app.catalog import model_path
from app.cli.interrupts import end_at_once, leave_to_command
from app.config import Settings
from app.engine.options import LoadOptions, Quantization
from app.errors import ConfigError

if TYPE_CHECKING:
    from app.engine.quality import Quality

EXAMPLES = """examples:
  python -m app bench quality
  python -m app bench quality --modes none,int8 --json
  python -m app --llm ./my-model bench quality --text book.txt --tokens 20000
"""
_TEXT = Path(__file__).resolve().parents[3] / "benchmarks" / "texts" / "alice.txt"
_MODES: tuple[Quantization, ...] = get_args(Quantization)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--modes", default=",".join(_MODES), help="with commas; the first is what others agree with")
    parser.add_argument(
        "--text", type=Path, default=_TEXT, help="a text file (default: two chapters of Alice in Wonderland)"
    )
    parser.add_argument("--tokens", type=int, default=4096, help="how much of it is read (default: 4096)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def overrides(args: argparse.Namespace) -> Mapping[str, str]:
    return {}


def run(settings: Settings, args: argparse.Namespace) -> int:
    """Measure each mode and print a table, or JSON. Raises ModelError, ConfigError, InvalidRequest."""
    modes = tuple(_mode(name) for name in args.modes.split(","))
    text = _read(args.text)
    folder = model_path(settings.llm.model, settings.runtime.model_store, kind="llm")
    # As the worker has it: a local folder needs no look at a hub, and threads that wait do not spin.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    end_at_once()
    from app.engine.quality import WINDOW_TOKENS, measure  # imports torch: not needed to hear of other wrong arguments

    leave_to_command()
    if args.tokens < WINDOW_TOKENS:
        raise ConfigError(f"--tokens {args.tokens} is too little to read: give at least {WINDOW_TOKENS}")
    with _progress(modes) as on_mode:
        found = measure(
            LoadOptions(folder, settings.llm.device),
            text,
            modes,
            most_tokens=args.tokens,
            threads=settings.runtime.llm_threads or max(1, min(8, os.cpu_count() or 1)),
            on_mode=on_mode,
        )
    if args.json:
        print(json.dumps([asdict(quality) for quality in found], indent=1))
    else:
        Console().print(_table(found))
    return 0


@contextmanager
def _progress(modes: Sequence[Quantization]) -> Iterator[Callable[[Quality], None]]:
    """A bar that moves on with each mode that was read, on a terminal only."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"reading in {modes[0]}…", total=len(modes))
        waiting = iter(modes[1:])

        def on_mode(quality: Quality) -> None:
            told = f"{quality.quantization}: perplexity {quality.perplexity:.2f}"
            if mode := next(waiting, None):
                told += f"; reading in {mode}…"
            bar.update(task, advance=1, description=told, refresh=True)

        yield on_mode


def _mode(name: str) -> Quantization:
    for mode in _MODES:
        if mode == name:
            return mode
    raise ConfigError(f"--modes has {name!r}; there are {', '.join(_MODES)}")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--text {path} cannot be read: {error}") from error


def _table(found: list[Quality]) -> Table:
    reference = found[0].quantization
    table = Table(title=f"{found[0].tokens} tokens scored")
    table.add_column("llm.quantization")
    table.add_column("runner")
    table.add_column("perplexity", justify="right")
    table.add_column(f"same likeliest token as {reference}", justify="right")
    for quality in found:
        agreement = f"{100 * quality.agreement:.1f} %"
        table.add_row(quality.quantization, quality.runner, f"{quality.perplexity:.3f}", agreement)
    return table
