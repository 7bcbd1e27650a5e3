"""Cases held with the real stages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_question_and_noise_are_held_with_real_sessions_and_judged(store: Path, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "app", "bench", "turns", "--json", "--keep", str(tmp_path / "sound"),
        "--out", str(tmp_path / "out.json"), "--case", "question-1", "--case", "click-alone", "--case", "stop-4",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=100)
    assert done.returncode in (0, 1), done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads((tmp_path / "out.json").read_text("utf-8"))
    cases = {case["name"]: case for case in result["cases"]}
    assert set(cases) == {"question-1", "click-alone", "stop-4"}
    assert "capital of france" in cases["question-1"]["transcript"].lower()
    assert 0 < cases["question-1"]["endpoint_ms"] <= cases["question-1"]["told_ms"] + 80
    assert cases["question-1"]["told_ms"] < cases["question-1"]["voice_to_voice_ms"]
    assert not cases["click-alone"]["faults"]
    assert cases["stop-4"]["silent_ms"] is not None
    assert {path.stem for path in (tmp_path / "sound").glob("*.wav")} == set(cases)


def test_a_case_that_does_not_exist_is_told_in_a_line() -> None:
    command = [sys.executable, "-m", "app", "bench", "turns", "--case", "quesion-1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=60)
    assert done.returncode == 2
    assert "question-*" in done.stderr
    assert "Traceback" not in done.stderr
