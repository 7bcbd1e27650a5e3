from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.interrupts import end_at_once, leave_to_command

ROOT = Path(__file__).resolve().parents[2]
_SLOW_PACKAGE = """
import time
print("importing", flush=True)
try:
    time.sleep(30)
except BaseException:  # as C extensions do
    raise ImportError("initialization failed")
"""


def test_ctrl_c_while_packages_are_imported_ends_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "pydantic.py").write_text(_SLOW_PACKAGE, "utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "config"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=10)[0] == ""
        assert process.returncode == 130
    finally:
        process.kill()
        process.wait()


def test_a_command_gets_ctrl_c_as_the_interrupt_that_it_knows() -> None:
    end_at_once()
    leave_to_command()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_signal_that_is_ignored_or_taken_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for a process in the background
    try:
        end_at_once()
        leave_to_command()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
