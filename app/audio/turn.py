"""Is the user done? A semantic judgement of the sound, not of the silence.

smart-turn v3.2: a Whisper encoder with a classifier on top, about 25 ms on one CPU thread.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from app.audio.batch import BatchWorker
from app.audio.frames import INPUT_RATE_HZ, Pcm
from app.audio.mel import log_mel
from app.errors import ModelError
from app.telemetry.memory import resident_mb
from app.telemetry.stage import StageReport

HEARD_SAMPLES = 8 * INPUT_RATE_HZ
"""The model hears the last 8 s."""
MODEL_FILE = "smart-turn-v3.2-cpu.onnx"
_MAX_BATCH = 8
_MAX_WAITING = 64
"""At 25 ms each the last of these waits over a second: more is no use to a conversation."""


class TurnDetector(Protocol):
    """Tells a finished utterance from a pause in one."""

    async def load(self) -> StageReport:
        """Load and warm up; raises ModelError when the model cannot be used."""
        ...

    async def completeness(self, pcm: Pcm) -> float:
        """Probability (0..1) that the user is done, from the utterance so far (int16 ``[n]``, 16 kHz,
        pauses included). Raises StageError, Overloaded among them."""
        ...

    async def close(self) -> None: ...


class SmartTurn:
    """smart-turn v3.2 on CPU. Requests that wait together are judged together."""

    def __init__(self, model_path: Path, threads: int = 1) -> None:
        self._path = model_path / MODEL_FILE if model_path.is_dir() else model_path
        self._threads = max(1, threads)
        self._session: onnxruntime.InferenceSession | None = None
        self._worker: BatchWorker[Pcm, float] = BatchWorker(
            "turn model",
            self._judge,
            max_waiting=_MAX_WAITING,
            choose=lambda waiting: range(min(len(waiting), _MAX_BATCH)),
        )

    async def load(self) -> StageReport:
        began, memory = time.perf_counter(), resident_mb()
        # The first work makes the session, so that reading the file is off the loop too.
        silence = np.zeros(INPUT_RATE_HZ, np.int16)
        await self._worker.submit([silence])
        loaded = time.perf_counter()
        await self._worker.submit([silence] * 2)
        detail = f"smart-turn v3.2 ({self._path.name}), cpu, {self._threads} thread{'s' * (self._threads > 1)}"
        return StageReport("turn", detail, loaded - began, time.perf_counter() - loaded, resident_mb() - memory)

    async def completeness(self, pcm: Pcm) -> float:
        (probability,) = await self._worker.submit([pcm[-HEARD_SAMPLES:]])
        return probability

    async def close(self) -> None:
        await self._worker.close()

    def _judge(self, batch: Sequence[Pcm]) -> list[float]:
        session = self._session = self._session or self._open()
        features = np.stack([_features(pcm) for pcm in batch])
        (output,) = session.run(None, {"input_features": features})
        return [float(probability) for probability in output[:, 0]]

    def _open(self) -> onnxruntime.InferenceSession:
        if not self._path.is_file():
            raise ModelError(f"the turn model {self._path} is missing; run: python -m app models pull")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Between judgements its threads would spin on the cores that others need.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            return onnxruntime.InferenceSession(str(self._path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has no public base class of its errors
            raise ModelError(f"the turn model {self._path} cannot be loaded: {error}") from error


def _features(pcm: Pcm) -> NDArray[np.float32]:
    """Features as the model was trained on: silence in FRONT up to 8 s, the whole of it normalised to
    mean 0 and variance 1 (with Whisper's 1e-7 against division by nothing), then log-mel ``[80, 800]``."""
    wave = np.zeros(HEARD_SAMPLES, np.float32)
    heard = pcm[-HEARD_SAMPLES:]
    if len(heard):
        wave[-len(heard) :] = heard * np.float32(1 / 32768)
    wave = (wave - wave.mean()) / np.sqrt(wave.var() + 1e-7)
    return log_mel(wave.astype(np.float32))
