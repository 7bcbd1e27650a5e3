"""``python -m app`` on a virtual sound card: a question goes in as sound, the answer comes out as sound."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import pytest_audioeval

from app.audio.frames import OUTPUT_RATE_HZ
from tests.kit.listening import Ear, word_error_rate
from tests.kit.virtual_sound import VirtualSound

_QUESTION = Path(pytest_audioeval.__path__[0]) / "samples" / "audio" / "en" / "quick_brown_fox"


class _Program:
    """The program's lines, as they come."""

    def __init__(self, env: dict[str, str]) -> None:
        self.process = subprocess.Popen([sys.executable, "-m", "app"], env=env, stdout=subprocess.PIPE, text=True)
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
def test_a_spoken_question_is_heard_and_the_answer_spoken_with_the_words_that_were_printed(
    ear: Ear,
) -> None:
    with VirtualSound() as sound:
        program = _Program(sound.env)
        try:
            program.wait_for("Microphone", 60)
            time.sleep(0.5)
            with sound.recording() as recording:
                sound.say(_QUESTION.with_suffix(".wav"))
                asked = program.wait_for("You:", 20)
                answered = program.wait_for("Parley:", 40)
                time.sleep(0.5)
            began = time.monotonic()
            assert program.end() == 0
            assert time.monotonic() - began < 2.2
        finally:
            program.process.kill()
            program.process.wait()
    assert word_error_rate(_QUESTION.with_suffix(".txt").read_text(), asked) <= 0.15
    loud = np.flatnonzero(np.abs(recording.pcm.astype(np.int32)) > 200)
    assert len(loud), "nothing was spoken"
    spoken = recording.pcm[max(0, loud[0] - 4800) : loud[-1] + 4800]
    assert word_error_rate(answered, ear.hear(spoken, OUTPUT_RATE_HZ)) <= 0.2
    assert not any(line.startswith("!") for line in program.lines), program.lines
    assert any(line.lstrip().startswith("answered after") for line in program.lines)
