"""What the user said lately, so that an utterance can be cut out of it, beginning included."""

from __future__ import annotations

from collections import deque

import numpy as np

from app.audio.frames import INPUT_RATE_HZ, Pcm

_BLOCK = INPUT_RATE_HZ // 4
"""Frames are gathered into 250 ms blocks: few objects for a long utterance, little slack for an idle session."""
_DETECTION_S = 1.0
"""Voice activity is told after the fact; the pre-roll is counted back from where speech began, not from then."""


class UtteranceRecorder:
    """A ring of the latest sound, 16 kHz; positions are samples of the input stream since its start.

    Idle it keeps the pre-roll and what detection needs (about 50 kB). From ``hold`` to ``release`` it
    keeps everything, up to ``max_utterance_s`` plus the pre-roll; beyond that the oldest sound goes.
    """

    def __init__(self, *, pre_roll_ms: int, max_utterance_s: float) -> None:
        self.pre_roll_samples = pre_roll_ms * INPUT_RATE_HZ // 1000
        self._idle_samples = self.pre_roll_samples + int(_DETECTION_S * INPUT_RATE_HZ)
        self._max_samples = int(max_utterance_s * INPUT_RATE_HZ) + self._idle_samples
        self._blocks: deque[Pcm] = deque()
        self._fill = _BLOCK
        """Samples used of the last block; a full one asks for the next."""
        self._first = 0
        self._end = 0
        self._held_from: int | None = None

    @property
    def position(self) -> int:
        """Samples pushed so far."""
        return self._end

    @property
    def earliest(self) -> int:
        """Position of the oldest sample that is still kept."""
        return self._first

    def push(self, pcm: Pcm) -> None:
        """Append the next samples of the stream (int16 ``[n]``)."""
        while len(pcm):
            if self._fill == _BLOCK:
                self._blocks.append(np.empty(_BLOCK, np.int16))
                self._fill = 0
            count = min(len(pcm), _BLOCK - self._fill)
            self._blocks[-1][self._fill : self._fill + count] = pcm[:count]
            self._fill += count
            self._end += count
            pcm = pcm[count:]
        self._trim()

    def hold(self, speech_start: int) -> None:
        """Keep all from the pre-roll before ``speech_start`` on; an earlier hold stays in force."""
        start = max(0, speech_start - self.pre_roll_samples)
        self._held_from = start if self._held_from is None else min(self._held_from, start)

    def release(self) -> None:
        """The utterance is done with: keep no more than when idle."""
        self._held_from = None
        self._trim()

    def slice(self, start: int, end: int | None = None) -> Pcm:
        """A copy of samples ``start`` to ``end`` (now, if None), less what is no longer or not yet kept."""
        start = max(start, self._first)
        end = self._end if end is None else min(end, self._end)
        if start >= end:
            return np.zeros(0, np.int16)
        first_block, last_block = (start - self._first) // _BLOCK, (end - 1 - self._first) // _BLOCK
        origin = self._first + first_block * _BLOCK
        sound = np.concatenate([self._blocks[index] for index in range(first_block, last_block + 1)])
        return sound[start - origin : end - origin].copy()

    def utterance(self, speech_start: int, end: int | None = None) -> Pcm:
        """As ``slice``, with the pre-roll in front."""
        return self.slice(speech_start - self.pre_roll_samples, end)

    def _trim(self) -> None:
        keep_from = self._end - self._idle_samples
        if self._held_from is not None:
            keep_from = max(min(keep_from, self._held_from), self._end - self._max_samples)
        while self._first + _BLOCK <= keep_from:
            self._blocks.popleft()
            self._first += _BLOCK
