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
    names = [llm.model]
    if llm.backend == "local" and (PurePath(llm.model).is_absolute() or Path(llm.model).exists()):
        file = PurePath(llm.model).name
        names = list(dict.fromkeys((file.removesuffix(".gguf"), file)))
    if llm.backend == "local":
        for entry in entries():
            repository = urlsplit(entry.homepage)
            if entry.name == llm.model and repository.hostname == "huggingface.co":
                names.append(repository.path.strip("/"))
    return (*names, DEFAULT)
