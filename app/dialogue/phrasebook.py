"""Parley's own lines as sound, made while the voice is known to work."""

from __future__ import annotations

import numpy as np

from app.audio.frames import OUTPUT_RATE_HZ, Pcm
from app.audio.resample import Resampler
from app.dialogue.phrases import Phrase, phrase_text
from app.tts import Synthesizer


class PhraseBook:
    """Every phrase in one language, at 48 kHz: playing one needs no stage at all."""

    def __init__(self, language: str, sounds: dict[Phrase, Pcm]) -> None:
        self.language = language
        self._sounds = sounds

    def sound(self, phrase: Phrase) -> Pcm:
        """The sound of ``phrase`` (int16 ``[n]``, 48 kHz)."""
        return self._sounds[phrase]

    @classmethod
    async def prepare(cls, tts: Synthesizer, language: str) -> PhraseBook:
        """Let ``tts`` speak all phrases once. Raises StageError when it cannot."""
        sounds: dict[Phrase, Pcm] = {}
        for phrase in Phrase:
            resampler = Resampler(tts.rate_hz, OUTPUT_RATE_HZ)
            parts = [resampler.process(pcm) async for pcm in tts.synthesize(phrase_text(phrase, language))]
            sounds[phrase] = np.concatenate([*parts, resampler.flush()])
        return cls(language, sounds)
