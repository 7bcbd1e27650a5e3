"""Chunks of any length become frames of one length."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from app.audio.frames import INPUT_FRAME, Pcm


class Framer:
    """Re-chunks a stream; holds back less than one frame."""

    def __init__(self, frame_samples: int = INPUT_FRAME) -> None:
        self._size = frame_samples
        self._rest: Pcm = np.zeros(0, np.int16)

    def push(self, pcm: Pcm) -> Iterator[Pcm]:
        """The frames (int16 ``[frame_samples]``) that ``pcm`` completes, in order. They may be views of it."""
        sound = np.concatenate([self._rest, pcm]) if len(self._rest) else pcm
        whole = len(sound) - len(sound) % self._size
        # A copy: the rest must not keep a large chunk alive, nor change with a buffer that is used again.
        self._rest = sound[whole:].copy()
        return iter([sound[start : start + self._size] for start in range(0, whole, self._size)])

    def flush(self) -> Pcm | None:
        """The last frame, filled up with silence; None when nothing was held back."""
        if not len(self._rest):
            return None
        frame = np.zeros(self._size, np.int16)
        frame[: len(self._rest)] = self._rest
        self._rest = np.zeros(0, np.int16)
        return frame
