"""Voice activity: where in the stream speech begins and ends.

webrtcvad is the cheap gate: where it hears nothing for a while, Silero is not asked. Silero v6 is
the judge. Both run inline, on the event loop: a frame costs far less than a hop to a thread.
"""

from __future__ import annotations

import importlib.util
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnxruntime
import webrtcvad
from numpy.typing import NDArray

from app.audio.frames import INPUT_RATE_HZ, Pcm
from app.config.settings import VadSettings
from app.errors import ModelError
from app.telemetry.memory import resident_mb
from app.telemetry.stage import StageReport

_WINDOW = 512
"""Samples that Silero judges at a time at 16 kHz: 32 ms."""
_CONTEXT = 64
"""Samples of the window before that it wants in front."""
_STATE_SHAPE = (2, 1, 128)
_GATE_OPEN = INPUT_RATE_HZ // 2
"""The gate stays open this long after webrtcvad last heard anything, so that pauses do not reset Silero."""
_REPLAYED_WINDOWS = 2
"""Judged again when the gate opens: Silero hears the onset with some past, and no onset is cut."""
_CANDIDATE_GAP = 3 * _WINDOW
"""A start that falters for longer than this was none; stops ("t", "p") and short dips pass."""

_RISE = 4 * _WINDOW
"""How far before the first certain window the edge of speech is looked for."""


@dataclass(frozen=True, slots=True)
class SpeechLikely:
    """What began at ``at_sample`` may become speech, or falter and be nothing; ``VadSettings.likely_ms`` of it."""

    at_sample: int


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """Speech began at ``at_sample`` of the input stream."""

    at_sample: int


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """Speech ended at ``at_sample`` of the input stream; ``VadSettings.silence_ms`` of silence followed."""

    at_sample: int


VadEvent: TypeAlias = SpeechLikely | SpeechStarted | SpeechStopped


class SileroModel:
    """The network, without state: one for all conversations of the process. ``judge`` is thread-safe."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise ModelError(f"the Silero VAD model {path} is missing; reinstall the package silero-vad")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has no public base class of its errors
            raise ModelError(f"the Silero VAD model {path} cannot be loaded: {error}") from error
        self._rate = np.array(INPUT_RATE_HZ, np.int64)

    def judge(self, sound: NDArray[np.float32], state: NDArray[np.float32]) -> tuple[float, NDArray[np.float32]]:
        """Speech probability of ``sound`` (float32 ``[1, 64 + 512]``) and the next state (``[2, 1, 128]``)."""
        output, next_state = self._session.run(None, {"input": sound, "state": state, "sr": self._rate})
        return float(output[0, 0]), next_state


def silero_path() -> Path:
    """Where the installed silero-vad package keeps its ONNX file. The package itself imports torch: never do."""
    spec = importlib.util.find_spec("silero_vad")
    if spec is None or not spec.submodule_search_locations:
        raise ModelError("the package silero-vad is not installed; run: pip install silero-vad")
    return Path(spec.submodule_search_locations[0]) / "data" / "silero_vad.onnx"


def load_vad(settings: VadSettings) -> tuple[SileroModel, StageReport]:
    """Load the shared model and warm it up. Raises ModelError."""
    began, memory = time.perf_counter(), resident_mb()
    model = SileroModel(silero_path())
    loaded = time.perf_counter()
    activity = VoiceActivity(model, settings)
    noise = np.random.default_rng(0).integers(-3000, 3000, 320 * 10).astype(np.int16)
    for start in range(0, len(noise), 320):
        activity.push(noise[start : start + 320])
    detail = f"Silero v6 behind webrtcvad mode {settings.aggressiveness}, cpu"
    warm = time.perf_counter()
    return model, StageReport("VAD", detail, loaded - began, warm - loaded, resident_mb() - memory)


class VoiceActivity:
    """One conversation's view: hysteresis and least durations over Silero's probabilities. Not thread-safe."""

    def __init__(self, model: SileroModel, settings: VadSettings) -> None:
        self._model = model
        self._settings = settings
        self._gate = webrtcvad.Vad(settings.aggressiveness)
        self._min_speech = settings.min_speech_ms * INPUT_RATE_HZ // 1000
        self._silence = settings.silence_ms * INPUT_RATE_HZ // 1000
        self._pending: Pcm = np.zeros(0, np.int16)
        self._past: deque[Pcm] = deque(maxlen=_REPLAYED_WINDOWS)
        self._end = 0
        """End of the last judged (or skipped) window, samples of the stream."""
        self._gate_voiced_at = -_GATE_OPEN
        self._open = False
        self._input: NDArray[np.float32] = np.zeros((1, _CONTEXT + _WINDOW), np.float32)
        self._state: NDArray[np.float32] = np.zeros(_STATE_SHAPE, np.float32)
        self._onset: int | None = None
        """Start of the run of windows that may become, or is, speech."""
        self._voiced = 0
        self._speech_end = 0
        self.speaking = False
        self.probability = 0.0
        """Silero's judgement of the latest window, 0 while the gate is shut."""

    def push(self, frame: Pcm) -> tuple[VadEvent, ...]:
        """Judge the next 20 ms (int16 ``[320]``, 16 kHz); what it decided, in order (mostly nothing)."""
        self._pending = np.concatenate([self._pending, frame])
        if self._gate.is_speech(frame.tobytes(), INPUT_RATE_HZ):
            self._gate_voiced_at = self._end + len(self._pending)
        events: list[VadEvent] = []
        while len(self._pending) >= _WINDOW:
            window, self._pending = self._pending[:_WINDOW], self._pending[_WINDOW:]
            self._end += _WINDOW
            if event := self._decide(window):
                events.append(event)
        return tuple(events)

    def _decide(self, window: Pcm) -> VadEvent | None:
        wanted = self.speaking or self._onset is not None or self._end - self._gate_voiced_at < _GATE_OPEN
        if wanted and not self._open:
            self._forget()
            event = None
            for back, earlier in enumerate(self._past):
                end = self._end - (len(self._past) - back) * _WINDOW
                event = self._advance(self._judge(earlier), end) or event
            event = self._advance(self._judge(window), self._end) or event
        elif wanted:
            event = self._advance(self._judge(window), self._end)
        else:
            self.probability = 0.0
            event = None
        self._open = wanted
        self._past.append(window)
        return event

    def _judge(self, window: Pcm) -> float:
        self._input[0, :_CONTEXT] = self._input[0, -_CONTEXT:]
        np.multiply(window, np.float32(1 / 32768), out=self._input[0, _CONTEXT:])
        self.probability, self._state = self._model.judge(self._input, self._state)
        return self.probability

    def _forget(self) -> None:
        self._state = np.zeros(_STATE_SHAPE, np.float32)
        self._input.fill(0.0)

    def _advance(self, probability: float, end: int) -> VadEvent | None:
        """The next window, which ends at ``end``, in the light of what came before."""
        if probability >= self._settings.release_threshold:
            if self._onset is None:
                self._onset = end - _WINDOW
            self._speech_end = end
            if probability >= self._settings.threshold:
                if not self._voiced:
                    self._onset = max(self._onset, end - _RISE)
                self._voiced += _WINDOW
                if not self.speaking and self._voiced >= self._min_speech:
                    self.speaking = True
                    return SpeechStarted(self._onset)
        elif self._onset is not None:
            silence = end - self._speech_end
            if self.speaking and silence >= self._silence:
                self._rest()
                self.speaking = False
                return SpeechStopped(self._speech_end)
            if not self.speaking and silence > _CANDIDATE_GAP:
                self._rest()
        return None

    def _rest(self) -> None:
        self._onset = None
        self._voiced = 0
