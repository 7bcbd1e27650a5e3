"""The queue between synthesis and the ear: bounded, paced by its reader, and exact in what it counts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import numpy as np

from app.audio.frames import OUTPUT_RATE_HZ, Pcm

_RAMP = OUTPUT_RATE_HZ // 200
"""5 ms: long enough that a change of gain or a cut makes no click, short enough to be one."""


REWIND_SAMPLES = 15 * OUTPUT_RATE_HZ
"""How much of what was played can be played again."""


class Playout:
    """What the assistant is about to say, at 48 kHz.

    The producer writes a reply's sound under its generation number; the transport reads at its own
    clock. The number of samples read is the only truth about what was heard, so ``on_played`` gets
    (generation, samples read of it so far) after each read that took any. All calls belong on the
    session's event loop; none blocks.
    """

    def __init__(
        self,
        *,
        capacity_s: float = 30.0,
        duck_db: float = 18.0,
        on_played: Callable[[int, int], None] = lambda generation, samples: None,
        on_read: Callable[[Pcm], None] = lambda pcm: None,
    ) -> None:
        """``on_read`` gets all that is read, as loud as it leaves, silence included."""
        self._capacity = int(capacity_s * OUTPUT_RATE_HZ)
        self._duck_gain = 10.0 ** (-duck_db / 20.0)
        self._on_played = on_played
        self._on_read = on_read
        self._chunks: deque[Pcm] = deque()
        self._past: deque[Pcm] = deque()
        self._past_samples = 0
        self._queued = 0
        self._generation = 0
        self._played = 0
        self._finished = True
        self._held = False
        self._gain = 1.0
        self._target_gain = 1.0
        self._fade_out: Pcm | None = None
        self._aside: Pcm = np.zeros(0, np.int16)
        self._room = asyncio.Event()
        self._room.set()
        self.underruns = 0
        """How often a reply in mid-speech had no sound ready: an audible gap."""

    @property
    def queued_samples(self) -> int:
        return self._queued

    @property
    def played_samples(self) -> int:
        """Samples read of the current generation."""
        return self._played

    # Producer side

    def begin(self, generation: int) -> None:
        """Accept sound of ``generation`` from now on, and of no other. Drops what an older one left."""
        self.flush()
        self._past.clear()
        self._past_samples = 0
        self._generation = generation
        self._played = 0
        self._finished = False
        self._held = False
        self._target_gain = 1.0

    def write(self, generation: int, pcm: Pcm) -> bool:
        """Queue sound; False when ``generation`` is no longer, or not yet, the one being spoken."""
        if generation != self._generation or self._finished:
            return False
        if len(pcm):
            self._chunks.append(pcm)
            self._queued += len(pcm)
            if self._queued >= self._capacity:
                self._room.clear()
        return True

    async def room(self) -> None:
        """Wait until less than the capacity is queued (or all of it was flushed)."""
        await self._room.wait()

    def aside(self, pcm: Pcm) -> None:
        """Say something before the sound that is being waited for; it counts as no generation's."""
        self._aside = pcm

    def finish(self, generation: int) -> None:
        """Say that ``generation`` has no more sound, so that running dry is no underrun."""
        if generation == self._generation:
            self._finished = True

    def flush(self) -> int:
        """Drop all that is queued and refuse more of this generation; returns the samples played of it."""
        if self._chunks and self._played and not self._held:
            self._fade_out = self._faded(self._take(_RAMP))
        self._chunks.clear()
        self._aside = self._aside[:0]
        self._queued = 0
        self._finished = True
        self._room.set()
        return self._played

    def hold(self) -> None:
        """Keep silent without losing the place; ``release`` resumes at the same sample."""
        if not self._held and len(self._aside):
            self._fade_out = self._faded(self._aside[:_RAMP])
        elif not self._held and self._chunks and self._played:
            self._fade_out = self._faded(self._chunks[0][:_RAMP])
        self._held = True

    def release(self) -> None:
        if self._held and self._played:
            self._gain = 0.0  # fades in
        self._held = False

    def rewind(self, sample: int) -> None:
        """Play again from ``sample`` of this generation on, at most ``REWIND_SAMPLES`` back."""
        while self._past and self._played > sample:
            piece = self._past.pop()
            again = min(len(piece), self._played - sample)
            self._past_samples -= again
            if again < len(piece):
                self._past.append(piece[:-again])
            self._chunks.appendleft(piece[-again:])
            self._queued += again
            self._played -= again

    def duck(self) -> None:
        """Speak quietly while the user may be interrupting."""
        self._target_gain = self._duck_gain

    def unduck(self) -> None:
        self._target_gain = 1.0

    # Reader side

    def read(self, count: int) -> Pcm:
        """The next ``count`` samples (int16 ``[count]``), silence where there are none."""
        out = np.zeros(count, np.int16)
        self._read_into(out)
        self._on_read(out)
        return out

    def _read_into(self, out: Pcm) -> None:
        if self._fade_out is not None:
            length = min(len(out), len(self._fade_out))
            out[:length] = self._fade_out[:length]
            self._fade_out = None
        elif self._held:
            return
        elif len(self._aside):
            piece, self._aside = self._aside[: len(out)], self._aside[len(out) :]
            out[: len(piece)] = piece
        elif self._queued:
            pcm = self._take(len(out))
            out[: len(pcm)] = self._apply_gain(pcm)
            self._remember(pcm)
            self._played += len(pcm)
            if self._queued < self._capacity:
                self._room.set()
            self._on_played(self._generation, self._played)
        elif self._played and not self._finished:
            self.underruns += 1

    def _remember(self, pcm: Pcm) -> None:
        self._past.append(pcm)
        self._past_samples += len(pcm)
        while self._past_samples - len(self._past[0]) >= REWIND_SAMPLES:
            self._past_samples -= len(self._past.popleft())

    def _faded(self, pcm: Pcm) -> Pcm:
        return (pcm * np.linspace(self._gain, 0.0, len(pcm), dtype=np.float32)).astype(np.int16)

    def _take(self, count: int) -> Pcm:
        parts: list[Pcm] = []
        while count and self._chunks:
            chunk = self._chunks.popleft()
            if len(chunk) > count:
                self._chunks.appendleft(chunk[count:])
                chunk = chunk[:count]
            parts.append(chunk)
            count -= len(chunk)
        pcm = np.concatenate(parts) if parts else np.zeros(0, np.int16)
        self._queued -= len(pcm)
        return pcm

    def _apply_gain(self, pcm: Pcm) -> Pcm:
        if self._gain == self._target_gain:
            return pcm if self._gain == 1.0 else (pcm * self._gain).astype(np.int16)
        gain = np.full(len(pcm), self._target_gain, np.float32)
        ramp = min(_RAMP, len(pcm))
        gain[:ramp] = np.linspace(self._gain, self._target_gain, ramp, dtype=np.float32)
        self._gain = self._target_gain
        return (pcm * gain).astype(np.int16)
