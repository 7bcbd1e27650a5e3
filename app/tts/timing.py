"""When each word of a clause has been heard: an estimate from its sound, for voices that do not tell."""

from __future__ import annotations

import re

import numpy as np

from app.audio.frames import Pcm
from app.tts.clause import Clause

_SILENCE_RATIO = 0.02
"""Of the clause's peak: what is quieter at its edges is not speech."""
_EDGE_MS = 10
"""Resolution at which the edges of the voiced part are looked for."""
_UNKNOWN_RATE_S = 0.09
"""Seconds per weight unit assumed until the clause is complete: slow speech, so that no word counts too early."""

_VOWELS = re.compile(r"[aeiouyáéíóúàèìòùâêîôûäëïöüãõåæø]+", re.IGNORECASE)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_PAUSE_WEIGHT = {",": 1.2, ";": 1.8, ":": 1.8, "-": 0.8, "—": 1.8, ".": 2.2, "!": 2.2, "?": 2.2}


def speech_weight(word: str) -> float:
    """How long ``word`` takes to say, in units of roughly one short syllable, its pause included.

    Vowel groups and consonants both take time; a digit is a word of its own ("7" is "seven").
    """
    letters = sum(char.isalpha() for char in word)
    syllables = len(_VOWELS.findall(word)) + 1.5 * sum(char.isdigit() for char in word) + len(_CJK.findall(word))
    pause = _PAUSE_WEIGHT.get(word[-1:], 0.0)
    return max(0.6, 0.7 * syllables + 0.18 * letters) + pause


class ClauseTimer:
    """Follows one clause's sound as it is queued.

    ``rate_hz`` is that of the sound added; ``first_sample`` is where the clause begins in the reply.
    """

    def __init__(self, clause: Clause, rate_hz: int, first_sample: int) -> None:
        self._ends = clause.word_ends
        self._rate_hz = rate_hz
        self._first_sample = first_sample
        weights = [speech_weight(word) for word in clause.spoken.split()]
        # The pause after the last word is not part of saying it.
        if weights:
            last = clause.spoken.split()[-1]
            weights[-1] -= _PAUSE_WEIGHT.get(last[-1:], 0.0)
        self._reached = np.cumsum(weights)
        self._chunks: list[Pcm] = []
        self._samples = 0

    def add(self, pcm: Pcm) -> None:
        """More of the clause's sound (int16 ``[n]``) has been queued."""
        self._chunks.append(pcm)
        self._samples += len(pcm)

    def words(self) -> tuple[tuple[int, int], ...]:
        """Words that end within the sound so far, at a slow rate: (end in the reply's text, end in its samples)."""
        ends = self._reached * _UNKNOWN_RATE_S * self._rate_hz
        return tuple(
            (text_end, self._first_sample + int(end))
            for text_end, end in zip(self._ends, ends, strict=True)
            if end < self._samples
        )

    def finish(self) -> tuple[tuple[int, int], ...]:
        """The same for all words, now that the length is known: they share the voiced part by their weights."""
        if not len(self._reached) or not self._samples:
            return ()
        start, end = self._voiced()
        ends = start + self._reached / self._reached[-1] * (end - start)
        return tuple(
            (text_end, self._first_sample + int(sample)) for text_end, sample in zip(self._ends, ends, strict=True)
        )

    def _voiced(self) -> tuple[int, int]:
        """Where speech begins and ends in the clause, samples."""
        sound = np.concatenate(self._chunks)
        block = max(1, self._rate_hz * _EDGE_MS // 1000)
        blocks = -(-len(sound) // block)
        padded = np.pad(sound, (0, blocks * block - len(sound)))
        loudness = np.abs(padded.astype(np.int32)).reshape(blocks, block).max(axis=1)
        loud = np.flatnonzero(loudness > _SILENCE_RATIO * max(1, int(loudness.max())))
        if not len(loud):
            return 0, len(sound)
        return int(loud[0]) * block, min(len(sound), (int(loud[-1]) + 1) * block)
