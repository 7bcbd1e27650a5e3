"""The names under which the one model is served."""

from __future__ import annotations

from pathlib import Path, PurePath
from urllib.parse import urlsplit

from app.catalog import entries
from app.config.settings import LlmSettings

DEFAULT = "default"
"""Always means the model that is served, for clients that must name one."""


def served_names(llm: LlmSettings) -> tuple[str, ...]:
    """The name to list, then the others that are understood. A path is served under its last part only."""
    name = llm.model
    if llm.backend == "local" and (PurePath(name).is_absolute() or Path(name).exists()):
        name = PurePath(name).name.removesuffix(".gguf")
    names = [name]
    if llm.backend == "local":
        for entry in entries():
            repository = urlsplit(entry.homepage)
            if entry.name == llm.model and repository.hostname == "huggingface.co":
                names.append(repository.path.strip("/"))
    return (*names, DEFAULT)
