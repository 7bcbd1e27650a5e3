"""Hugging Face repositories: a local snapshot if there is one, else a fetch in a process of its own.

The fetch runs in a child because huggingface_hub decides at import whether it may use the network,
and because the server's own processes never need the library.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from app.catalog.schema import Entry, HubSource, Kind
from app.catalog.store import DiskFull, disk_error, file_spec
from app.catalog.wheels import check
from app.errors import ModelError

_REPO_ID = re.compile(r"^(?P<repo>[A-Za-z0-9][\w.-]*/[\w.-]+?)(?:@(?P<revision>[\w./-]+))?$")
_WANTED: dict[Kind, tuple[str, ...]] = {
    "llm": ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"),
    "embedding": ("*.json", "*.safetensors", "*.model", "*.txt"),
    "asr": ("config.json", "model.bin", "tokenizer.json", "vocabulary.*", "preprocessor_config.json"),
}


def parse_repo_id(text: str) -> tuple[str, str] | None:
    """("owner/name", revision) of a Hugging Face id, "owner/name" or "owner/name@revision"; else None."""
    match = _REPO_ID.match(text)
    return (match["repo"], match["revision"] or "main") if match else None


def fetch_hub(entry: Entry, source: HubSource, built: Path) -> None:
    """Fetch the files of a catalogue entry from its repository into ``built``, checked."""
    work = built.parent / "hub"
    _child(source.repo, source.revision, tuple(source.files.values()), local_dir=work)
    for file, member in source.files.items():
        target = built / file
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            (work / member).replace(target)
        except OSError as error:
            raise disk_error(error, target) from error
        check(entry.name, file, file_spec(target), entry.files[file])


def cached_snapshot(repo: str, revision: str) -> Path | None:
    """The folder of a repository in the Hugging Face cache, found without the network and without the library."""
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    cache = Path(os.environ.get("HF_HUB_CACHE", home / "hub")).expanduser() / f"models--{repo.replace('/', '--')}"
    commit = revision
    with suppress(OSError):  # the revision may be a commit itself
        commit = (cache / "refs" / revision).read_text("utf-8").strip()
    folder = cache / "snapshots" / commit
    return folder if commit and folder.is_dir() else None


def fetch_snapshot(repo: str, revision: str, kind: Kind) -> Path:
    """Fetch what a model of ``kind`` needs into the Hugging Face cache; returns the snapshot's folder."""
    if kind not in _WANTED:
        raise ModelError(f"{repo}: a {kind} model cannot be taken from Hugging Face by its id; give a folder instead.")
    return _child(repo, revision, _WANTED[kind], local_dir=None)


def _child(repo: str, revision: str, patterns: tuple[str, ...], *, local_dir: Path | None) -> Path:
    order = {
        "repo": repo,
        "revision": revision,
        "patterns": patterns,
        "local_dir": str(local_dir) if local_dir is not None else None,
    }
    result = subprocess.run(
        [sys.executable, "-m", "app.catalog.hub_fetch"],
        input=json.dumps(order),
        stdout=subprocess.PIPE,  # stderr stays: the library's progress bar
        text=True,
        check=False,
        cwd=Path(__file__).resolve().parents[2],
    )
    try:
        answer = json.loads(result.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        raise ModelError(f"{repo}: fetching from Hugging Face broke off (exit code {result.returncode}).") from None
    if "folder" in answer:
        return Path(answer["folder"])
    raise _error(repo, revision, answer["code"], answer["detail"])


def _error(repo: str, revision: str, code: str, detail: str) -> ModelError:
    match code:
        case "no_network":
            return ModelError(
                f"{repo}: no connection to Hugging Face. Check the network and proxy, set HF_ENDPOINT to a mirror, or "
                "give a local folder."
            )
        case "offline":
            return ModelError(f"{repo}: HF_HUB_OFFLINE is set and the model is not in the cache. Unset it to fetch.")
        case "not_found":
            return ModelError(f"{repo}: no such repository, revision ({revision}) or file on Hugging Face.")
        case "denied":
            return ModelError(
                f"{repo}: Hugging Face wants a login for it. Accept its licence there, then `hf auth login` or HF_TOKEN."
            )
        case "disk_full":
            return DiskFull(f"{repo}: the disk filled up while fetching. Free some space, or move HF_HOME.")
        case _:
            return ModelError(f"{repo}: fetching from Hugging Face failed: {detail}")
