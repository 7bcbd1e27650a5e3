"""``python -m app`` on a virtual sound card: a question goes in as sound, the answer comes out as sound."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import pytest_audioeval

from app.audio.frames import OUTPUT_RATE_HZ
from tests.kit.listening import Ear, plain, word_error_rate
from tests.kit.virtual_sound import VirtualSound

_QUESTION = Path(pytest_audioeval.__path__[0]) / "samples" / "audio" / "en" / "quick_brown_fox"
_GREETING = (
    "Welcome to the museum. The first room shows paintings of the sea, made by fishermen in the long winters of the "
    "north. The second room holds clocks, and each of them tells a different time. In the third room you will find "
    "letters that were never sent, written by people who changed their minds. Please do not touch the glass."
)


class _Program:
    """The program's lines, as they come."""

    def __init__(self, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines: list[str] = []
        self._new: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_for(self, start: str, timeout_s: float) -> str:
        deadline = time.monotonic() + timeout_s
        while True:
            line = self._new.get(timeout=max(0.01, deadline - time.monotonic()))
            assert line is not None, "the program ended:\n" + "\n".join(self.lines)
            if line.startswith(start):
                return line.removeprefix(start).strip()

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(timeout=5)
        self._reader.join()
        return status

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            self._new.put(line.rstrip())
        self._new.put(None)


@pytest.mark.slow
def test_without_headphones_a_question_over_the_assistants_voice_is_heard_and_answered_and_nothing_echoes_into_a_turn(
    ear: Ear,
) -> None:
    with VirtualSound() as sound:
        sound.add_echo(latency_ms=60)
        program = _Program({**sound.env, "PARLEY_ASSISTANT__GREETING": _GREETING})
        try:
            program.wait_for("Microphone", 100)
            time.sleep(6.0)  # of nothing but the assistant's own voice
            assert not any(line.startswith("You:") for line in program.lines), program.lines
            with sound.recording() as recording:
                sound.say(_QUESTION.with_suffix(".wav"))
                greeting = program.wait_for("Parley:", 20)
                asked = program.wait_for("You:", 20)
                answered = program.wait_for("Parley:", 60)
                time.sleep(0.5)
            sound.stop()
            program.wait_for("The sound device", 10)
            sound.start()
            program.wait_for("Going on", 20)
            assert program.end() == 0
        finally:
            program.process.kill()
            program.process.wait()
    assert "interrupted" in greeting
    assert greeting.startswith("Welcome to the museum.")
    assert word_error_rate(_QUESTION.with_suffix(".txt").read_text(), asked) <= 0.15
    assert sum(line.startswith("You:") for line in program.lines) == 1, program.lines
    assert any(line.lstrip().startswith("answered after") for line in program.lines)
    heard = plain(ear.hear(recording.pcm, OUTPUT_RATE_HZ))
    assert plain(answered).split()[-1] in heard, (answered, heard)
