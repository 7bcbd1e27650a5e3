"""Compiles kernels.c once per machine, compiler and version of the file."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from app.errors import ModelError

SOURCE = Path(__file__).with_name("kernels.c")
_FLAGS = ("-std=gnu11", "-O3", "-march=native", "-ffp-contract=fast", "-fPIC", "-shared", "-pthread")
_COMPILE_S = 120.0
_COMPILERS = ("cc", "gcc", "clang")


def library() -> Path:
    """The compiled kernels, from the cache or built now (about 4 s). Raises ModelError saying what is missing."""
    if sys.byteorder != "little":
        raise ModelError("the native kernels want a little-endian processor")
    compiler = _compiler()
    built = _cache() / f"kernels-{_fingerprint(compiler)}.so"
    if not built.exists():
        _compile(compiler, built)
    return built


def _compiler() -> str:
    for name in (os.environ.get("CC"), *_COMPILERS):
        if name and (found := shutil.which(name)):
            return found
    raise ModelError(f"no C compiler ({', '.join(_COMPILERS)}): install gcc for the native kernels")


def _cache() -> Path:
    """Beside other programs' caches: the package's own folder may belong to somebody else."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = (Path(base) if base else Path.home() / ".cache") / "parley"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody's home
        raise ModelError(f"no place to keep the native kernels: {error}; set XDG_CACHE_HOME") from error
    return folder


def _fingerprint(compiler: str) -> str:
    """What the result depends on: code built for one processor ends with SIGILL on an older one."""
    parts = [SOURCE.read_text(), " ".join(_FLAGS), compiler, str(Path(compiler).resolve()), platform.machine()]
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        parts += sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))})
    except OSError:
        parts.append(platform.processor())
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


def _compile(compiler: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        command = [compiler, *_FLAGS, "-o", str(made), str(SOURCE), "-lm"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ModelError(f"{compiler} could not build the native kernels: {error}") from error
        if done.returncode:
            raise ModelError(f"{compiler} could not build the native kernels: {done.stderr.strip()[-500:]}")
        made.replace(target)  # in one go: another worker may be starting at the same time
