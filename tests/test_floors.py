"""The house has floors: imports point downwards, torch stays where it belongs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FLOORS = {
    "errors": 0,
    "config": 0,
    "telemetry": 0,
    "audio": 0,
    "catalog": 0,
    "asr": 1,
    "tts": 1,
    "engine": 1,
    "llm": 1,
    "dialogue": 2,
    "transports": 3,
    "client": 3,
    "wiring": 3,
    "server": 4,
    "bench": 4,
    "replay": 4,
    "cli": 5,
    "__main__": 6,
}
SAME_FLOOR = {("llm", "engine"), ("wiring", "transports")}
"""Rooms that may know a neighbour: the client knows its worker's messages. On floor 0 all may know errors,
settings and telemetry; nothing else is shared."""
GROUND = {"errors", "config", "telemetry"}
TORCH = {"engine", "tts/coqui.py", "catalog", "cli/doctor.py"}


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "app" and len(parts) > 1 and parts[1] in FLOORS else None


FILES = sorted((ROOT / "app").rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_imports_point_downwards(path: Path) -> None:
    own = path.relative_to(ROOT / "app").parts[0].removesuffix(".py")
    if own not in FLOORS:
        return
    for module in imports(path):
        other = room_of(module)
        if other is None or other == own or other in GROUND or (own, other) in SAME_FLOOR:
            continue
        assert FLOORS[other] < FLOORS[own], f"{own} must not know {other} ({module})"


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_only_the_engine_and_what_is_chosen_imports_torch(path: Path) -> None:
    relative = path.relative_to(ROOT / "app").as_posix()
    if any(relative == allowed or relative.startswith(f"{allowed}/") for allowed in TORCH):
        return
    names = {module.partition(".")[0] for module in imports(path)}
    assert not names & {"torch", "transformers", "TTS", "silero_vad"}


def test_the_front_end_never_loads_torch() -> None:
    code = (
        "import sys, app.wiring, app.asr.faster_whisper, app.llm.local, app.tts.hibari, app.server, app.transports.webrtc;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_the_packages_that_must_match_import_together() -> None:
    code = "import torch, torchaudio, transformers, TTS, faster_whisper, aiortc, webrtcvad, websockets, numpy"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
