"""Whisper as an ear: what was heard, and when each word ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jiwer
import numpy as np

from app.audio.frames import Pcm
from app.audio.resample import resample


def plain(text: str) -> str:
    """Lower-case words without punctuation, for comparison."""
    return " ".join("".join(char if char.isalnum() or char == "'" else " " for char in text.lower()).split())


def word_error_rate(said: str, heard: str) -> float:
    return float(jiwer.wer(plain(said), plain(heard)))


@dataclass(frozen=True, slots=True)
class HeardWord:
    text: str
    end_s: float


@dataclass(frozen=True, slots=True)
class Ear:
    model: Any

    def hear(self, sound: Pcm, rate_hz: int) -> str:
        return " ".join(word.text for word in self.words(sound, rate_hz))

    def words(self, sound: Pcm, rate_hz: int) -> list[HeardWord]:
        padded = np.pad(resample(sound, rate_hz, 16_000), (8000, 8000)).astype(np.float32) / 32768
        segments, _ = self.model.transcribe(padded, language="en", beam_size=1, word_timestamps=True)
        return [HeardWord(word.word.strip(), word.end - 0.5) for segment in segments for word in segment.words or []]
