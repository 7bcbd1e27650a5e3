"""What runs here is nobody else's business."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_HEAR = """
import app
from app.audio import load_vad
from app.config.settings import VadSettings
load_vad(VadSettings())
"""


def test_libraries_do_not_prepare_to_tell_their_makers_about_this_machine(tmp_path: Path) -> None:
    """onnxruntime's telemetry begins with an id of the device in the home folder, and a queue of events."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("ORT_", "HF_", "XDG_"))}
    subprocess.run([sys.executable, "-c", _HEAR], env={**environment, "HOME": str(tmp_path)}, check=True)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
