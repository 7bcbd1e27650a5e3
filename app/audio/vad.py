"""Voice activity: where in the stream speech begins and ends.

webrtcvad is the cheap gate: where it hears nothing for a while, Silero is not asked. Silero v6 is
the judge. Both run inline, on the event loop: a frame costs far less than a hop to a thread.
"""

from __future__ import annotations

import importlib.util
import time
from collections import deque
from collections.abc import Iterator
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
_HOP = _WINDOW // 2
"""Two states of Silero take turns, half a window apart: whatever happens is noticed up to 16 ms sooner."""
_EARS = _WINDOW // _HOP
_STATE_SHAPE = (2, 1, 128)
_GATE_OPEN = INPUT_RATE_HZ // 2
"""The gate stays open this long after webrtcvad last heard anything, so that pauses do not reset Silero."""
_REPLAYED = 16 * _HOP
"""Sound judged again when the gate opens: Silero is some 50 ms quicker to tell speech from a noise it knows."""
_KEPT = _CONTEXT + _WINDOW + _REPLAYED + INPUT_RATE_HZ // 10
_CANDIDATE_GAP = 3 * _WINDOW
"""A start that falters for longer than this was none; stops ("t", "p") and short dips pass."""

_RISE = 4 * _WINDOW
"""How far before the first certain window the beginning of speech is looked for."""
_FALL_HOPS = 6
"""How far before the last window that Silero took for speech its end is looked for. It goes on for 70 to 130 ms."""
_SPEECH_RANGE = 10.0**-3
"""What is 30 dB below the loudest of what was said is no part of it..."""
_OVER_NOISE = 10.0**0.6
"""...nor what stands out by less than 6 dB from the sound that follows."""
_PEAK_FADE = 0.99
"""Of the loudest, per hop: speech that goes away from the microphone is forgiven 2.7 dB a second."""


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
    """One conversation's view: hysteresis and least durations over Silero's probabilities. Not thread-safe.

    Each SpeechStarted comes after a SpeechLikely, and is followed by one SpeechStopped.
    """

    def __init__(self, model: SileroModel, settings: VadSettings) -> None:
        self._model = model
        self._settings = settings
        self._gate = webrtcvad.Vad(settings.aggressiveness)
        self._likely = settings.likely_ms * INPUT_RATE_HZ // 1000
        self._min_speech = settings.min_speech_ms * INPUT_RATE_HZ // 1000
        self._silence = settings.silence_ms * INPUT_RATE_HZ // 1000
        self._sound: Pcm = np.zeros(_KEPT, np.int16)
        self._heard = 0
        """Samples of the stream so far; the last of them ends ``_sound``."""
        self._end = _WINDOW - _HOP
        """End of the last judged (or skipped) window, samples of the stream."""
        self._judged = 0
        """End of the last window that counted: none counts twice."""
        self._gate_voiced_at = -_GATE_OPEN
        self._open = False
        self._input: NDArray[np.float32] = np.zeros((1, _CONTEXT + _WINDOW), np.float32)
        self._states = [np.zeros(_STATE_SHAPE, np.float32)] * _EARS
        self._onset: int | None = None
        """Start of the run of windows that may become, or is, speech."""
        self._sounding = 0
        """Samples of the run that may be speech."""
        self._voiced = 0
        """Samples of the run that surely are."""
        self._likely_told = False
        self._speech_end = 0
        """End of the last window that may be speech."""
        self._powers: deque[float] = deque(maxlen=_FALL_HOPS + self._silence // _HOP + 1)
        """Mean squares of the latest hops; the last of them ends at ``_judged``."""
        self._peak_power = 0.0
        self.speaking = False
        self.probability = 0.0
        """Silero's judgement of the latest window, 0 while the gate is shut."""

    def push(self, frame: Pcm) -> tuple[VadEvent, ...]:
        """Judge the next 20 ms (int16 ``[320]``, 16 kHz); what it decided, in order (mostly nothing)."""
        self._sound = np.concatenate([self._sound[len(frame) :], frame])
        self._heard += len(frame)
        if self._gate.is_speech(frame.tobytes(), INPUT_RATE_HZ):
            self._gate_voiced_at = self._heard
        events: list[VadEvent] = []
        while self._heard - self._end >= _HOP:
            self._end += _HOP
            events += self._decide()
        return tuple(events)

    def _decide(self) -> list[VadEvent]:
        """The window that ends at ``_end``, if it is worth Silero's while."""
        wanted = self.speaking or self._onset is not None or self._end - self._gate_voiced_at < _GATE_OPEN
        opens, self._open = wanted and not self._open, wanted
        if not wanted:
            self.probability = 0.0
            return []
        events: list[VadEvent] = []
        if opens:
            self._states = [np.zeros(_STATE_SHAPE, np.float32)] * _EARS
        for end in range(self._end - (_REPLAYED if opens else 0), self._end + 1, _HOP):
            probability = self._judge(end)
            if end > self._judged:
                self._judged = end
                events += self._advance(probability, end)
        return events

    def _judge(self, end: int) -> float:
        last = len(self._sound) - (self._heard - end)
        np.multiply(self._sound[last - _CONTEXT - _WINDOW : last], np.float32(1 / 32768), out=self._input[0])
        ear = end // _HOP % _EARS
        self.probability, self._states[ear] = self._model.judge(self._input, self._states[ear])
        return self.probability

    def _advance(self, probability: float, end: int) -> Iterator[VadEvent]:
        """The next window, which ends at ``end``, in the light of what came before."""
        power = self._power(end)
        self._powers.append(power)
        if probability >= self._settings.release_threshold:
            if self._onset is None:
                self._onset = max(0, end - _WINDOW)
            self._speech_end = end
            self._sounding += _HOP if self._sounding else _WINDOW
            if probability >= self._settings.threshold:
                if not self._voiced:
                    self._onset = max(self._onset, end - _RISE)
                self._voiced += _HOP if self._voiced else _WINDOW
                self._peak_power = max(self._peak_power * _PEAK_FADE, power)
            if not self.speaking:
                yield from self._begin(self._onset)
        elif self._onset is not None:
            silence = end - self._speech_end
            if not self.speaking:
                if silence > _CANDIDATE_GAP:
                    self._rest()
            elif silence >= _WINDOW and end - (edge := self._edge(silence // _HOP)) >= self._silence:
                self._rest()
                self.speaking = False
                yield SpeechStopped(edge)

    def _power(self, end: int) -> float:
        last = len(self._sound) - (self._heard - end)
        hop = self._sound[last - _HOP : last].astype(np.float32)
        return float(hop @ hop) / _HOP

    def _edge(self, silent_hops: int) -> int:
        """Where speech ended. Silero lags behind by the time its memory takes to fade: loudness tells it better."""
        powers = list(self._powers)
        silent_hops = min(silent_hops, len(powers))
        floor = sum(powers[-silent_hops:]) / silent_hops
        least = max(floor * _OVER_NOISE, self._peak_power * _SPEECH_RANGE)
        edge = self._speech_end
        for power in powers[-silent_hops - 1 : -silent_hops - 1 - _FALL_HOPS : -1]:
            if power >= least:
                break
            edge -= _HOP
        return edge

    def _begin(self, onset: int) -> Iterator[VadEvent]:
        starts = self._voiced >= self._min_speech
        if not self._likely_told and (starts or self._sounding >= self._likely):
            self._likely_told = True
            yield SpeechLikely(onset)
        if starts:
            self.speaking = True
            yield SpeechStarted(onset)

    def _rest(self) -> None:
        self._onset = None
        self._sounding = self._voiced = 0
        self._peak_power = 0.0
        self._likely_told = False
