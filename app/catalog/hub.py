"""Models of the Hugging Face hub: files of a catalogue entry, or a whole snapshot by its id."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from app.catalog.progress import Progress
from app.catalog.schema import Entry, HubSource
from app.catalog.store import disk_error, file_spec
from app.catalog.wheels import check
from app.errors import ModelError

HUB_ID = re.compile(r"^[\w.-]+/[\w.-]+$")
_SNAPSHOT_PATTERNS = ["*.safetensors", "*.json", "*.model", "*.txt", "*.jinja", "*.bin", "*.onnx"]
_LLM_IGNORED = ["*.bin", "*.onnx", "original/*", "onnx/*"]
"""An LLM's safetensors are enough; the same weights in other formats would double the download."""


def fetch_hub(entry: Entry, source: HubSource, built: Path, progress: Progress) -> None:
    """Fetch the entry's files into ``built``; an interrupted download is resumed by the hub's own cache."""
    from huggingface_hub import hf_hub_download

    done = 0
    for file, member in source.files.items():
        progress(f"fetching {entry.name}", done, entry.bytes)
        try:
            cached = hf_hub_download(source.repo, member, revision=source.revision)
        except Exception as error:  # the hub's client raises errors of httpx, of its own and OSError
            raise ModelError(f"{source}: {_reason(error)}") from error
        target = built / file
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(cached, target)
        except OSError as error:
            raise disk_error(error, target) from error
        check(entry.name, file, file_spec(target), entry.files[file])
        done += entry.files[file].bytes
    progress(f"fetching {entry.name}", entry.bytes, entry.bytes)


def snapshot(repo: str, kind: str) -> Path:
    """The folder of a hub model: the cached one without asking the network, else fetched. Raises ModelError."""
    from huggingface_hub import snapshot_download

    ignored = _LLM_IGNORED if kind == "llm" else None
    try:
        return Path(snapshot_download(repo, allow_patterns=_SNAPSHOT_PATTERNS, ignore_patterns=ignored, local_files_only=True))
    except Exception:  # noqa: S110 - not cached (or not completely): fetch it
        pass
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        raise ModelError(f"{repo} is not in the Hugging Face cache and HF_HUB_OFFLINE=1 forbids fetching it.")
    try:
        return Path(snapshot_download(repo, allow_patterns=_SNAPSHOT_PATTERNS, ignore_patterns=ignored))
    except Exception as error:
        raise ModelError(
            f"{repo} is neither in the catalogue nor in the Hugging Face cache, and fetching it failed: {_reason(error)}"
        ) from error


def _reason(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:300]
