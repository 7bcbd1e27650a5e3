"""Files that a command was asked to write: that they cannot be is told before the work, and never as a traceback."""

from __future__ import annotations

import os
from pathlib import Path

from app.audio import Pcm, write_wav
from app.audio.frames import OUTPUT_RATE_HZ
from app.errors import InvalidRequest


def check_place(flag: str, path: Path | None) -> None:
    """Raises InvalidRequest if nothing can be written there; None is nowhere."""
    if path is None:
        return
    if path.is_dir():
        raise InvalidRequest(f"{flag} {path} is a folder; give the name of a file.")
    if not path.parent.is_dir():
        raise InvalidRequest(f"{flag} {path}: there is no folder {path.parent}; make it first.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidRequest(f"{flag} {path} may not be written; choose another place.")


def save(flag: str, path: Path, content: bytes) -> None:
    """Raises InvalidRequest."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InvalidRequest(f"{flag} {path} cannot be written: {error.strerror or error}.") from error


def save_wav(path: Path, pcm: Pcm) -> None:
    """``--out``: int16 at 48 kHz. Raises InvalidRequest."""
    try:
        write_wav(path, pcm, OUTPUT_RATE_HZ)
    except (OSError, RuntimeError) as error:
        raise InvalidRequest(f"--out {path} cannot be written: {error}.") from error
