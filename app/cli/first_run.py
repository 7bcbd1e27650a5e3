"""What must be fetched before the first conversation, and fetching it."""

from __future__ import annotations

import sys

from app.catalog import Kind, Store
from app.catalog.schema import Catalogue, Entry
from app.cli.keys import ask, screen, somebody_types
from app.config import Settings
from app.errors import ConfigError, ModelError

_DEFAULT_PIPER = "piper-joe"


def missing_models(settings: Settings) -> list[Entry]:
    """Those of the catalogue that these settings name and that are not here. Others are judged when they are loaded."""
    wanted: list[tuple[Kind, str]] = []
    if settings.llm.backend == "local":
        wanted.append(("llm", settings.llm.model))
    if settings.asr.backend == "faster-whisper":
        wanted.append(("asr", settings.asr.model))
    if settings.turn.backend == "smart-turn":
        wanted.append(("turn", settings.turn.model))
    if settings.tts.backend == "piper":
        wanted.append(("tts", settings.tts.model or _DEFAULT_PIPER))
    catalogue, store = Catalogue.load(), Store(settings.runtime.model_store)
    missing: list[Entry] = []
    for kind, name in wanted:
        try:
            entry = catalogue.get(name)
        except ModelError:  # a folder, a file, or a name of the hub
            continue
        if entry.kind == kind and entry.package is None and store.fault(entry):
            missing.append(entry)
    return missing


def fetch_missing(settings: Settings) -> None:
    """Fetch what is missing, with progress; asks first if somebody is there to answer.

    Raises ConfigError if the answer is no, ModelError naming what could not be fetched.
    """
    missing = missing_models(settings)
    if not missing:
        return
    from app.cli.models import fetch

    total_mb = sum(entry.bytes for entry in missing) / 1e6
    out = screen()
    print(f"Parley needs {len(missing)} model(s) that are not here yet, {total_mb:.0f} MB in all:", file=out)
    for entry in missing:
        print(f"  {entry.name:<24}{entry.bytes / 1e6:>6.0f} MB   {entry.kind}, {entry.licence}", file=out)
    print(f"They are fetched once, and kept in {settings.runtime.model_store}.", file=out, flush=True)
    asks = somebody_types() and sys.stdout is not None and sys.stdout.isatty()
    if asks and ask("Fetch them now? [Y/n] ", at_end="n") not in ("", "y", "yes", "j", "ja", "是", "好"):
        raise ConfigError(
            "Nothing was fetched. Fetch them later with `python -m app models pull`, or talk to a Parley elsewhere "
            "with `python -m app --server URL`."
        )
    for entry in missing:
        fetch(entry, settings.runtime.model_store, out)
