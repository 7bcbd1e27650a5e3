"""From what a user writes as ``model = "..."`` to a folder that a backend can load."""

from __future__ import annotations

from pathlib import Path

from app.catalog.fetch import package_folder
from app.catalog.gguf import converted_copy
from app.catalog.hub import cached_snapshot, fetch_snapshot, parse_repo_id
from app.catalog.schema import Catalogue, Kind
from app.catalog.store import Store
from app.errors import ModelError

_FILE_SUFFIXES = {".gguf", ".onnx", ".bin", ".safetensors", ".pth"}


def model_path(name_or_path: str | Path, store: Path, *, kind: Kind, catalogue: Catalogue | None = None) -> Path:
    """The local place of a model; raises ModelError with the remedy.

    - a catalogue name: its folder in ``store`` (never fetched here);
    - a folder: itself, once it is seen to hold a model of ``kind``; one with nothing but a .gguf counts as that file;
    - a .gguf file (kind "llm"): the folder of its converted copy, made on the first call (15 s and more);
    - any other file, an .onnx voice say: itself;
    - a Hugging Face id, "owner/name" or "owner/name@revision": the cached snapshot if it is complete, without
      touching the network; else it is fetched, which may take long.

    Blocks; call it from a thread. What it returns needs no network: load it with HF_HUB_OFFLINE=1.
    """
    text = str(name_or_path)
    known = catalogue or Catalogue.load()
    if text in known:
        return _from_store(text, store, kind, known)
    path = Path(text).expanduser()
    if path.is_dir():
        return _from_folder(path.resolve(), store, kind)
    if path.is_file():
        return _from_file(path.resolve(), store, kind)
    looks_like_a_path = text.startswith((".", "/", "~")) or path.suffix in _FILE_SUFFIXES
    repo_id = None if looks_like_a_path else parse_repo_id(text)
    if repo_id is not None:
        return _from_hub(*repo_id, store, kind)
    if looks_like_a_path or len(path.parts) > 1:
        raise ModelError(f"There is no file or folder {path} (asked for as the {kind} model).")
    raise ModelError(
        f"No {kind} model is called {text!r}: it is not in the catalogue, not a folder or file, and not a Hugging Face "
        f"id (owner/name).{known.suggestion(text)}"
    )


def _from_store(name: str, store: Path, kind: Kind, catalogue: Catalogue) -> Path:
    entry = catalogue.get(name)
    if entry.kind != kind:
        fitting = sorted(other.name for other in catalogue.models.values() if other.kind == kind)
        raise ModelError(f"{name!r} is a model of kind {entry.kind}, not {kind}. Of kind {kind}: {', '.join(fitting)}.")
    if entry.package is not None:
        return package_folder(entry, entry.package)
    place = Store(store)
    fault = place.fault(entry)
    if fault:
        raise ModelError(f"The {kind} model {name!r} {fault} ({store}). Run `python -m app models pull {name}`.")
    return place.folder(name)


def _from_folder(folder: Path, store: Path, kind: Kind) -> Path:
    fault = _lacks(folder, kind)
    if not fault:
        return folder
    ggufs = sorted(folder.glob("*.gguf"))
    if kind == "llm" and len(ggufs) == 1:
        return converted_copy(ggufs[0], Store(store))
    if kind == "llm" and ggufs:
        raise ModelError(f"{folder} holds several .gguf files; name one of them: {', '.join(p.name for p in ggufs)}.")
    raise ModelError(f"{folder} is no usable {kind} model: it lacks {fault}.")


def _from_file(path: Path, store: Path, kind: Kind) -> Path:
    if kind == "llm":
        if path.suffix != ".gguf":
            raise ModelError(f"{path} is not a .gguf file. For safetensors name the folder that holds them.")
        return converted_copy(path, Store(store))
    return path


def _from_hub(repo: str, revision: str, store: Path, kind: Kind) -> Path:
    cached = cached_snapshot(repo, revision)
    if cached is not None and not _lacks(cached, kind):
        return cached
    folder = fetch_snapshot(repo, revision, kind)
    fault = _lacks(folder, kind)
    if fault:
        raise ModelError(f"{repo} on Hugging Face is no usable {kind} model: it lacks {fault}.")
    return folder


def _lacks(folder: Path, kind: Kind) -> str:
    """What a folder misses to be a model of ``kind``; "" if nothing."""
    if kind in ("llm", "embedding"):
        if not (folder / "config.json").is_file():
            return "config.json"
        if not any((folder / file).is_file() for file in ("tokenizer.json", "tokenizer.model", "vocab.json")):
            return "a tokenizer (tokenizer.json)"
        return _lacking_shard(folder)
    if kind == "asr":
        return next((file for file in ("model.bin", "config.json") if not (folder / file).is_file()), "")
    if kind in ("turn", "vad"):
        return "" if any(folder.glob("*.onnx")) else "an .onnx file"
    return ""  # voices differ too much: their backends look for themselves


def _lacking_shard(folder: Path) -> str:
    """A weight file named by the index of a sharded model but absent, say after a fetch that broke off."""
    import json

    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return "" if any(folder.glob("*.safetensors")) else "weights (*.safetensors)"
    try:
        shards = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError):
        return f"a readable {index.name}"
    return next((shard for shard in shards if not (folder / shard).is_file()), "")
