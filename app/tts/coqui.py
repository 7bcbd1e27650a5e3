"""Coqui TTS in this process: any model of its catalogue, or a folder with config.json and a checkpoint.

The package brings torch into the process, so it is imported only when this backend is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from app.audio.frames import Pcm
from app.config.settings import RuntimeSettings, TtsSettings
from app.errors import ModelError
from app.tts.base import SPEEDS
from app.tts.local import LocalSynthesizer, Opened
from app.tts.pool import pause_ms, to_pcm, trim_silence

_CHECKPOINTS = ("*.pth", "*.pth.tar", "*.pt")


class CoquiSynthesizer(LocalSynthesizer):
    """``tts.model`` is a folder, or a Coqui name like "tts_models/en/ljspeech/vits" (fetched by Coqui itself)."""

    def __init__(self, settings: TtsSettings, runtime: RuntimeSettings, model_folder: Path | None = None) -> None:
        # One clause at a time, on all threads: a model is told its speed by an attribute that all clauses share.
        super().__init__("coqui", settings, runtime.model_copy(update={"tts_threads": 1}))
        self._threads = runtime.tts_threads or 1
        self._synthesizer: Any = None

    @property
    def rate_hz(self) -> int:
        return int(self._synthesizer.output_sample_rate)

    def _open(self) -> Opened:
        if not self._settings.model:
            raise ModelError("tts.model is empty: Coqui needs a model name, or a folder with config.json.")
        try:
            import torch
            from TTS.utils.synthesizer import Synthesizer as CoquiVoice
        except ImportError as error:
            raise ModelError(f"coqui-tts cannot be imported ({error}); run: pip install coqui-tts") from error
        torch.set_num_threads(self._threads)
        config, checkpoint = self._files()
        cuda = self._settings.device == "cuda" or (self._settings.device == "auto" and torch.cuda.is_available())
        try:
            self._synthesizer = CoquiVoice(tts_checkpoint=checkpoint, tts_config_path=config, use_cuda=cuda)
        except Exception as error:  # the package raises whatever went wrong below it
            raise ModelError(f"The Coqui model {self._settings.model} cannot be loaded: {error}") from error
        voices = self._voices()
        default = self._settings.voice or voices[0]
        if default not in voices:
            raise ModelError(f"tts.voice {default!r} is not in this model; available: {', '.join(voices)}.")
        device = "cuda" if cuda else "cpu"
        detail = f"Coqui {Path(self._settings.model).name}, {self.rate_hz / 1000:g} kHz, {device}"
        return Opened(detail, voices, default, self._speeds())

    def _files(self) -> tuple[str, str]:
        """Paths of the configuration and the checkpoint."""
        folder = Path(self._settings.model)
        if not folder.is_dir():
            return self._fetch()
        config = folder / "config.json"
        checkpoints = [path for pattern in _CHECKPOINTS for path in sorted(folder.glob(pattern))]
        if not config.is_file() or not checkpoints:
            raise ModelError(f"{folder} (tts.model) needs a config.json and a checkpoint ({', '.join(_CHECKPOINTS)}).")
        return str(config), str(checkpoints[0])

    def _fetch(self) -> tuple[str, str]:
        from TTS.utils.manage import ModelManager

        try:
            model, config, _ = ModelManager(progress_bar=True).download_model(self._settings.model)
        except Exception as error:
            raise ModelError(
                f"tts.model {self._settings.model!r} is neither a folder nor a model that Coqui could fetch: {error}"
            ) from error
        path = Path(model)
        if path.is_dir():
            found = [item for pattern in _CHECKPOINTS for item in sorted(path.glob(pattern))]
            path = found[0] if found else path
        return str(config), str(path)

    def _voices(self) -> tuple[str, ...]:
        """The model's speakers; a model of one voice has no names in it, and goes by its own."""
        manager = getattr(self._synthesizer.tts_model, "speaker_manager", None)
        self._speakers = tuple(getattr(manager, "speaker_names", None) or ())
        return self._speakers or (Path(self._settings.model).name,)

    def _speeds(self) -> tuple[float, float]:
        """Models that predict durations scale them; XTTS takes the speed with each text; others have one speed."""
        model = self._synthesizer.tts_model
        self._length_scale: float | None = getattr(model, "length_scale", None)
        self._takes_speed = "speed" in signature(getattr(model, "inference", self._speeds)).parameters
        if self._length_scale is not None or self._takes_speed:
            return SPEEDS
        if self._settings.speed != 1.0:
            raise ModelError(
                f"tts.speed is {self._settings.speed}, but {self._settings.model} has one speed only: set it to 1.0."
            )
        return 1.0, 1.0

    def _speak(self, text: str, voice: str, speed: float) -> Iterator[Pcm]:
        arguments: dict[str, float] = {}
        if self._length_scale is not None:
            self._synthesizer.tts_model.length_scale = self._length_scale / speed
        elif self._takes_speed:
            arguments["speed"] = speed
        speaker = voice if voice in self._speakers else ""
        # One clause at a time is what we are given; Coqui's own sentence splitter would only cut it again.
        sound = self._synthesizer.tts(text, speaker_name=speaker, split_sentences=False, **arguments)
        yield trim_silence(to_pcm(np.asarray(sound, np.float32)), self.rate_hz, tail_ms=pause_ms(text))
