"""List, fetch and check the models of the catalogue (models/catalog.toml)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.table import Column, Table
from rich.text import Text

from app.catalog import Progress as ReportProgress
from app.catalog import Store, entries, model_path, pull, verify
from app.catalog.schema import Catalogue, Entry
from app.config import Settings

EXAMPLES = """examples:
  python -m app models list
  python -m app models pull                 the default models
  python -m app models pull piper-joe       one more
  python -m app models verify               read every file and compare its sha256
  python -m app models path whisper-base    where it lies
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "pull", "verify", "path"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="catalogue names; none means the default models")


def overrides(args: argparse.Namespace) -> Mapping[str, str]:
    return {}


def run(settings: Settings, args: argparse.Namespace) -> int:
    catalogue = Catalogue.load()
    chosen = [catalogue.get(name) for name in args.names]
    store = settings.runtime.model_store
    match args.action:
        case "list":
            _list(Store(store))
        case "pull":
            _pull(settings, chosen)
        case "verify":
            return _verify(settings, chosen)
        case "path":
            for entry in chosen or _defaults():
                print(model_path(entry.name, store, kind=entry.kind))
    return 0


def _defaults() -> list[Entry]:
    return [entry for entry in entries() if entry.default]


def _list(store: Store) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "kind", "MB", "languages", "licence", "here"):
        table.add_column(heading, no_wrap=True)
    for entry in entries():
        here = "package" if entry.package else "yes" if not store.fault(entry) else "-"
        size = f"{entry.bytes / 1e6:.0f}"
        name = f"{entry.name} *" if entry.default else entry.name
        table.add_row(name, entry.kind, size, ",".join(entry.languages), entry.licence, here)
    Console().print(table)
    print("* fetched by `python -m app models pull` without a name")


def _pull(settings: Settings, chosen: list[Entry]) -> None:
    store = settings.runtime.model_store
    wanted = chosen or _defaults()
    for entry in wanted:
        if entry.package is None and not Store(store).fault(entry):
            print(f"{entry.name}: already here")
            continue
        fetch(entry, store)


def fetch(entry: Entry, store: Path, out: TextIO | None = None) -> None:
    """Fetch one model into ``store`` and tell how it goes, on standard output or ``out``. Raises ModelError."""
    console = Console(file=out)
    with progress_of(console) as report:
        folder = pull(entry.name, store, progress=report, on_wait=lambda: report(f"waiting for {entry.name}", 0, 0))
    print(f"{entry.name}: {folder}", file=out, flush=True)


@contextmanager
def progress_of(console: Console) -> Iterator[ReportProgress]:
    """Bars in a terminal, moving also where nobody knows how long it takes; elsewhere a line for each step that begins."""
    whole = Column(no_wrap=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", table_column=whole),
        BarColumn(20),
        _Amount(whole),
        TimeElapsedColumn(whole),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, TaskID] = {}

        def report(what: str, done_bytes: int, total_bytes: int) -> None:
            if what not in tasks:
                for earlier in tasks.values():
                    bar.update(earlier, visible=False)
                tasks[what] = bar.add_task(what, total=total_bytes or None)
                if not console.is_terminal:
                    size = f", {total_bytes / 1e6:.0f} MB" if total_bytes else ""
                    print(f"{what}{size}", file=console.file, flush=True)
            bar.update(tasks[what], completed=done_bytes, total=total_bytes or None)

        yield report


class _Amount(ProgressColumn):
    """Bytes and their speed, where bytes are what a step is made of."""

    _columns = (DownloadColumn(), TransferSpeedColumn())

    def render(self, task: Task) -> Text:
        return Text("") if task.total is None else Text(" ").join(column.render(task) for column in self._columns)


def _verify(settings: Settings, chosen: list[Entry]) -> int:
    bad = 0
    for entry in chosen or _defaults():
        fault = verify(entry.name, settings.runtime.model_store)
        bad += bool(fault)
        remedy = f"; mend it with `python -m app models pull {entry.name}`" if fault else ""
        print(f"{entry.name}: {fault or 'good'}{remedy}")
    return 1 if bad else 0
