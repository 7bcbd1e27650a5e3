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
_UNKNOWN_RATE_S = 0.25
"""Seconds per weight unit assumed until the clause is complete: slow speech, so that no word counts too early."""

_VOWELS = re.compile(r"[aeiouyáéíóúàèìòùâêîôûäëïöüãõåæø]+", re.IGNORECASE)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_PER_SYLLABLE, _PER_LETTER, _SHORTEST = 0.3, 0.18, 0.3
_SYLLABLES_PER_DIGIT = 3.0
_PAUSE_WEIGHT = {",": 1.8, ";": 1.8, ":": 1.8, "-": 0.8, "—": 1.8, ".": 2.2, "!": 2.2, "?": 2.2}
# Fitted to Whisper's word times of a dozen sentences in two voices: within 0.16 s for 9 words in 10,
# once its habit of ending every word 0.1 to 0.2 s early is taken off.


def speech_weight(word: str) -> float:
    """How long ``word`` takes to say, in units of roughly one short syllable, without the pause after it.

    Vowel groups and consonants both take time; a digit is a word of its own ("7" is "seven").
    """
    letters = sum(char.isalpha() for char in word)
    syllables = len(_VOWELS.findall(word)) + _SYLLABLES_PER_DIGIT * sum(char.isdigit() for char in word)
    syllables += 2 * len(_CJK.findall(word))
    return max(_SHORTEST, _PER_SYLLABLE * syllables + _PER_LETTER * letters)


def pause_weight(word: str) -> float:
    """How long a speaker rests after ``word``, in the same units."""
    return _PAUSE_WEIGHT.get(word[-1:], 0.0)


class ClauseTimer:
    """Follows one clause's sound as it is queued.

    ``rate_hz`` is that of the sound added; ``first_sample`` is where the clause begins in the reply.
    """

    def __init__(self, clause: Clause, rate_hz: int, first_sample: int) -> None:
        self._ends = clause.word_ends
        self._rate_hz = rate_hz
        self._first_sample = first_sample
        words = clause.spoken.split()
        pauses = np.array([pause_weight(word) for word in words])
        # A word has been heard before the rest after it.
        self._reached = np.cumsum(np.array([speech_weight(word) for word in words]) + pauses) - pauses
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
