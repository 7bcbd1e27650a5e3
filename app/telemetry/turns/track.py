"""One direction of a session's sound, as long as it is wanted."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_BLOCKS_A_SECOND = 2
_GAP_S = 0.25
"""Sound that comes this much later than the samples before it would have it follows a gap: nobody was there."""


@dataclass(slots=True)
class Block:
    """Half a second. ``pcm`` is None while all of it is silent, which takes no memory."""

    start: int
    """Position of its first sample in the stream."""
    at_s: float
    """When that sample came, by the session's clock."""
    fill: int = 0
    pcm: NDArray[np.int16] | None = None

    def end_s(self, rate_hz: int) -> float:
        """When its last sample came, or would have."""
        return self.at_s + self.fill / rate_hz

    @property
    def nbytes(self) -> int:
        return 0 if self.pcm is None else self.pcm.nbytes


@dataclass(frozen=True, slots=True)
class Sound:
    """A stretch of a track. ``clock`` holds (sample, seconds of the session's clock) of each block."""

    rate_hz: int
    pcm: NDArray[np.int16]
    clock: tuple[tuple[int, float], ...]


class Track:
    """Appends frames to blocks, and forgets old blocks. int16 mono at ``rate_hz``."""

    def __init__(self, rate_hz: int) -> None:
        self.rate_hz = rate_hz
        self.blocks: deque[Block] = deque()
        self._size = rate_hz // _BLOCKS_A_SECOND
        self._position = 0

    def push(self, pcm: NDArray[np.int16], now_s: float) -> int:
        """Keep a copy of ``pcm``, which came at ``now_s``; the bytes by which memory has grown."""
        grown = 0
        while len(pcm):
            block = self.blocks[-1] if self.blocks else None
            if block is None or block.fill == self._size or now_s - block.end_s(self.rate_hz) > _GAP_S:
                block = Block(self._position, now_s)
                self.blocks.append(block)
            piece = pcm[: self._size - block.fill]
            if block.pcm is None and piece.any():
                block.pcm = np.zeros(self._size, np.int16)
                grown += block.pcm.nbytes
            if block.pcm is not None:
                block.pcm[block.fill : block.fill + len(piece)] = piece
            block.fill += len(piece)
            self._position += len(piece)
            pcm = pcm[len(piece) :]
        return grown

    def forget_before(self, at_s: float) -> int:
        """Drop the blocks that end before ``at_s``; the bytes that this frees."""
        freed = 0
        while len(self.blocks) > 1 and self.blocks[1].at_s <= at_s:
            freed += self.blocks.popleft().nbytes
        return freed

    def forget_oldest(self) -> int:
        """Drop the oldest block, at least one being there; the bytes that this frees."""
        return self.blocks.popleft().nbytes


def sound(blocks: Sequence[Block], rate_hz: int, from_s: float) -> Sound:
    """What ``blocks`` hold from ``from_s`` on, to the sample."""
    parts: list[NDArray[np.int16]] = []
    clock: list[tuple[int, float]] = []
    samples = 0
    for block in blocks:
        skip = max(0, min(block.fill, round((from_s - block.at_s) * rate_hz))) if not parts else 0
        piece = np.zeros(block.fill, np.int16) if block.pcm is None else block.pcm[: block.fill]
        if skip == block.fill:
            continue
        clock.append((samples, block.at_s + skip / rate_hz))
        parts.append(piece[skip:])
        samples += block.fill - skip
    return Sound(rate_hz, np.concatenate(parts) if parts else np.zeros(0, np.int16), tuple(clock))
