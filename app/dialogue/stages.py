"""The stages that all sessions of a process share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from app.asr import Recognizer
from app.audio.frames import Pcm
from app.audio.turn import TurnDetector
from app.audio.vad import VadEvent
from app.dialogue.phrasebook import PhraseBook
from app.llm import LanguageModel
from app.tts import Synthesizer


class VoiceDetector(Protocol):
    """One conversation's voice activity detector."""

    def push(self, frame: Pcm) -> tuple[VadEvent, ...]:
        """Judge the next 20 ms (int16 ``[320]``, 16 kHz) inline."""
        ...

    @property
    def probability(self) -> float:
        """That the latest sound is speech, 0..1."""
        ...


@dataclass(frozen=True, slots=True)
class Stages:
    """Loaded and warm. ``turn`` is None when a fixed silence ends turns."""

    new_voice_detector: Callable[[], VoiceDetector]
    asr: Recognizer
    llm: LanguageModel
    tts: Synthesizer
    turn: TurnDetector | None
    phrases: PhraseBook
