"""Piper: one VITS model per file, with one voice or many, in many languages (16 or 22.05 kHz, as the voice's file says)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnxruntime

from app.audio.frames import Pcm
from app.config.settings import RuntimeSettings, TtsSettings
from app.errors import ModelError
from app.tts.local import LocalSynthesizer, Opened
from app.tts.pool import pause_ms, trim_silence

_VOLUME = 0.7
"""Piper brings every clause to full scale; resampling needs some room above the peaks."""


class PiperSynthesizer(LocalSynthesizer):
    """``model_folder`` holds NAME.onnx with NAME.onnx.json beside it, or is such a file itself."""

    def __init__(self, settings: TtsSettings, runtime: RuntimeSettings, model_folder: Path | None = None) -> None:
        super().__init__("piper", settings, runtime)
        self._path = model_folder
        self._voice: Any = None
        self._speakers: dict[str, int] = {}
        self._rate_hz = 0

    @property
    def rate_hz(self) -> int:
        return self._rate_hz

    def _open(self) -> Opened:
        try:
            from piper import PiperConfig, PiperVoice
        except ImportError as error:
            raise ModelError(f"piper-tts cannot be imported ({error}); run: pip install piper-tts") from error
        path = self._onnx_file()
        try:
            config = PiperConfig.from_dict(json.loads(Path(f"{path}.json").read_text(encoding="utf-8")))
            self._voice = PiperVoice(session=_session(path), config=config)
        except Exception as error:  # onnxruntime and json errors of many kinds
            raise ModelError(f"The Piper voice {path} cannot be loaded: {error}") from error
        # A model of one voice has no names in it: it goes by that of its file.
        self._speakers = dict(self._voice.config.speaker_id_map) or {path.stem: 0}
        voices = tuple(sorted(self._speakers, key=lambda name: self._speakers[name]))
        first = self._voice.config.default_speaker_id
        name = self._settings.voice or next((name for name in voices if self._speakers[name] == first), voices[0])
        if name not in voices:
            raise ModelError(f"tts.voice {name!r} is not in {path.name}; available: {', '.join(voices)}.")
        self._rate_hz = int(self._voice.config.sample_rate)
        speaks = f", voice {name}" if len(voices) > 1 else ""
        return Opened(f"Piper {path.stem}{speaks}, {self._rate_hz / 1000:g} kHz, cpu", voices, name)

    def _onnx_file(self) -> Path:
        if self._path is None:
            raise ModelError("tts.model is empty: Piper needs a catalogue name or an .onnx file.")
        path = self._path if self._path.suffix == ".onnx" else next(iter(sorted(self._path.glob("*.onnx"))), None)
        if path is None or not path.is_file():
            raise ModelError(f"There is no .onnx voice in {self._path} (tts.model).")
        if not Path(f"{path}.json").is_file():
            raise ModelError(f"{path}.json is missing: Piper needs it beside the voice.")
        return path

    def _speak(self, text: str, voice: str, speed: float) -> Iterator[Pcm]:
        from piper import SynthesisConfig

        manner = SynthesisConfig(speaker_id=self._speakers[voice], length_scale=1.0 / speed, volume=_VOLUME)
        for chunk in self._voice.synthesize(text, manner):
            yield trim_silence(chunk.audio_int16_array, self._rate_hz, tail_ms=pause_ms(text))


def _session(path: Path) -> onnxruntime.InferenceSession:
    """One thread a clause: ``runtime.tts_threads`` clauses are spoken at once, and no more threads than that run.

    PiperVoice.load leaves onnxruntime all cores, which then spin between clauses and slow down everybody else.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
