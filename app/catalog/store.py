"""The folder that holds fetched models: what is in place, what is being fetched, who may write.

``store/NAME/`` is a complete model with its manifest, or it does not exist: a model is put
together under ``store/.staging/`` on the same file system and moved into place in one rename.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from app.catalog.schema import Entry, FileSpec
from app.errors import ModelError

MANIFEST_NAME = "parley-model.json"
MANIFEST_FORMAT = 1
CHUNK_BYTES = 1 << 20


class DiskFull(ModelError):
    """The store's disk cannot take the model; no other source can help."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a complete model folder holds, and where it came from."""

    name: str
    source: str
    files: dict[str, FileSpec]

    def write(self, folder: Path) -> None:
        tree = {
            "format": MANIFEST_FORMAT,
            "name": self.name,
            "source": self.source,
            "files": {file: spec.model_dump() for file, spec in sorted(self.files.items())},
        }
        write_durably(folder / MANIFEST_NAME, json.dumps(tree, indent=1).encode())

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest in ``folder``; None where it is missing, damaged or of another format."""
        try:
            tree = json.loads((folder / MANIFEST_NAME).read_text("utf-8"))
            if tree["format"] != MANIFEST_FORMAT:
                return None
            files = {file: FileSpec.model_validate(spec) for file, spec in tree["files"].items()}
            return cls(tree["name"], tree["source"], files)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def fault(self, folder: Path) -> str:
        """What is wrong with the folder's files by name and size ("" if nothing); reads no contents."""
        for file, spec in self.files.items():
            try:
                size = (folder / file).stat().st_size
            except OSError:
                return f"{file} is missing"
            if size != spec.bytes:
                return f"{file} has {size} bytes instead of {spec.bytes}"
        return ""


class Store:
    """Access to one store folder; cheap to make, holds nothing open."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, name: str) -> Path:
        return self.root / name

    def fault(self, entry: Entry) -> str:
        """Why the model in the store cannot be used ("" if it can), without reading file contents."""
        folder = self.folder(entry.name)
        if not folder.is_dir():
            return "is not in the store"
        manifest = Manifest.read(folder)
        if manifest is None:
            return "has no readable manifest"
        if any(manifest.files.get(file) != spec for file, spec in entry.files.items()):
            return "is of another version than the catalogue's"
        return manifest.fault(folder)

    @contextmanager
    def lock(self, name: str, *, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
        """Hold the right to write ``name``; a second caller waits. The system frees it if the holder dies."""
        self.make_folder(self.root / ".locks")
        guard = FileLock(self.root / ".locks" / f"{name}.lock")
        try:
            guard.acquire(timeout=0)
        except Timeout:
            if on_wait is not None:
                on_wait()
            guard.acquire()
        try:
            yield
        finally:
            guard.release()

    def staging(self, name: str) -> Path:
        """The folder to put ``name`` together in; only for the holder of its lock."""
        return self.root / ".staging" / name

    def make_folder(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise disk_error(error, folder) from error

    def need_space(self, wanted_bytes: int) -> None:
        """Raise DiskFull when the store's disk has less than ``wanted_bytes`` free."""
        free = shutil.disk_usage(self.root).free
        if free < wanted_bytes:
            raise DiskFull(
                f"The disk of {self.root} has {free / 1e6:.0f} MB free and {wanted_bytes / 1e6:.0f} MB are needed. "
                "Free some, or set runtime.model_store to a folder on another disk."
            )

    def publish(self, built: Path, name: str) -> Path:
        """Move the complete folder ``built`` into place as ``name``, instead of what was there."""
        target = self.folder(name)
        old = self.staging(name) / "replaced"
        remove_tree(old)
        try:
            if target.exists():
                target.replace(old)
            built.replace(target)
            sync_folder(target.parent)
        except OSError as error:
            raise disk_error(error, target) from error
        remove_tree(old)
        return target


def disk_error(error: OSError, path: Path) -> ModelError:
    """An OSError of the store as a message with a remedy."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(
            f"The disk of {path} is full. Free some space, or set runtime.model_store to a folder on another disk."
        )
    return ModelError(f"Cannot write {path}: {error.strerror or error}. Check its permissions, or runtime.model_store.")


def file_spec(path: Path) -> FileSpec:
    """Size and sha256 of a file."""
    digest = hashlib.sha256()
    size = 0
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return FileSpec(bytes=size, sha256=digest.hexdigest())


def folder_specs(folder: Path) -> dict[str, FileSpec]:
    """Size and sha256 of every file below ``folder`` but the manifest."""
    return {
        path.relative_to(folder).as_posix(): file_spec(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST_NAME
    }


def write_durably(path: Path, data: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` survive a power cut, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_tree(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
