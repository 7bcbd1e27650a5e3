"""From one sample rate to another, as the sound arrives.

A polyphase windowed-sinc filter (Crochiere and Rabiner 1983, "Multirate Digital Signal Processing",
chapter 3). It is our own because general streaming resamplers collect 40 to 100 ms before they give
anything, in bursts; this one answers every chunk at once and delays the sound by 1 to 3 ms.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, gcd

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import NDArray

from app.audio.frames import Pcm
from app.errors import InvalidRequest

_ZERO_CROSSINGS = 24
"""Of the sinc on each side, in samples of the lower rate: the passband ends at 0.44 of that rate."""
_KAISER_BETA = 7.86
"""80 dB of stopband (Kaiser's formula 0.1102 (A - 8.7)), below the noise of 16 bits at speech levels."""
_CUTOFF = 0.94
"""Of the lower Nyquist frequency, so that the transition band ends about there."""
_LONG = 8
"""Output samples per phase from which a chunk is converted phase by phase."""
_NARROW = 3
"""Up to this step, computing the samples in between and dropping them is faster than picking windows."""
MIN_RATE_HZ, MAX_RATE_HZ = 4_000, 384_000


class Resampler:
    """Converts a stream of mono int16 chunks of any length. Not thread-safe; one per stream."""

    def __init__(self, from_hz: int, to_hz: int) -> None:
        for rate in (from_hz, to_hz):
            if not MIN_RATE_HZ <= rate <= MAX_RATE_HZ:
                raise InvalidRequest(f"sample rate {rate} Hz is outside {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz")
        self.from_hz = from_hz
        self.to_hz = to_hz
        divisor = gcd(from_hz, to_hz)
        self._up, self._down = to_hz // divisor, from_hz // divisor
        self._same = from_hz == to_hz
        if not self._same:
            self._filters = _polyphase(self._up, self._down)
        self._taps = 1 if self._same else self._filters.shape[1]
        self._history = np.zeros(self._taps - 1, np.float32)
        self._phase = 0
        """Place of the next output sample after the first new input sample, in 1 / up input samples."""

    @property
    def delay_samples(self) -> int:
        """How much later a sound leaves than it came in, in samples of ``to_hz``."""
        return 0 if self._same else round(self._taps * self._up / (2 * self._down))

    def process(self, pcm: Pcm) -> Pcm:
        """Convert the next chunk. After n samples in all, ceil(n * to_hz / from_hz) have come out in all."""
        if self._same or not len(pcm):
            return pcm
        sound = np.concatenate([self._history, pcm.astype(np.float32)])
        count = max(0, -(-(len(pcm) * self._up - self._phase) // self._down))
        out = (self._by_phase if count >= _LONG * self._up else self._by_sample)(sound, count)
        self._phase += count * self._down - len(pcm) * self._up
        self._history = sound[len(sound) - self._taps + 1 :]
        converted: Pcm = np.clip(np.rint(out), -32768, 32767).astype(np.int16)
        return converted

    def _by_sample(self, sound: NDArray[np.float32], count: int) -> NDArray[np.float32]:
        """A short chunk: each output sample with the window and the filter of its own."""
        positions = self._phase + np.arange(count) * self._down
        windows = sliding_window_view(sound, self._taps)
        filters = self._filters[positions % self._up]
        out: NDArray[np.float32] = np.einsum("nk,nk->n", windows[positions // self._up], filters)
        return out

    def _by_phase(self, sound: NDArray[np.float32], count: int) -> NDArray[np.float32]:
        """A long chunk: all samples of a phase share a filter. Ten times as fast for a clause of speech."""
        out = np.empty(count, np.float32)
        for first in range(self._up):
            position = self._phase + first * self._down
            start, taps = position // self._up, self._filters[position % self._up]
            samples = -(-(count - first) // self._up)
            piece = sound[start : start + (samples - 1) * self._down + self._taps]
            if self._down <= _NARROW:
                out[first :: self._up] = np.convolve(piece, taps[::-1], "valid")[:: self._down]
            else:
                stride = piece.strides[0]
                windows = as_strided(piece, (samples, self._taps), (stride * self._down, stride), writeable=False)
                out[first :: self._up] = np.dot(windows, taps)
        return out

    def flush(self) -> Pcm:
        """The end of the sound that the filter still holds; the next chunk begins a new stream."""
        tail = self.process(np.zeros(0 if self._same else ceil(self._taps / 2), np.int16))
        self._history = np.zeros(self._taps - 1, np.float32)
        self._phase = 0
        return tail


def resample(pcm: Pcm, from_hz: int, to_hz: int) -> Pcm:
    """Convert a whole sound (int16 ``[n]``) without delay: int16 ``[ceil(n * to_hz / from_hz)]``."""
    if from_hz == to_hz:
        return pcm
    stream = Resampler(from_hz, to_hz)
    sound = np.concatenate([stream.process(pcm), stream.flush()])
    return sound[stream.delay_samples :][: ceil(len(pcm) * to_hz / from_hz)]


def downmix(samples: NDArray[np.int16], channels: int) -> Pcm:
    """Mean of the channels, int16 ``[n]``.

    ``samples`` is planar when its shape is ``[channels, n]``; anything else is read as interleaved
    (``[n * channels]``, ``[1, n * channels]`` or ``[n, channels]``). ``channels`` must come from the
    sound itself: equal sample rates say nothing about it.
    """
    if channels == 1:
        return samples.reshape(-1)
    if samples.size % channels:
        raise InvalidRequest(f"{samples.size} samples cannot be {channels} interleaved channels")
    planar = samples.ndim == 2 and samples.shape[0] == channels
    grouped = samples.T if planar else samples.reshape(-1, channels)
    mean: Pcm = (grouped.sum(axis=1, dtype=np.int32) // channels).astype(np.int16)
    return mean


@lru_cache(maxsize=16)
def _polyphase(up: int, down: int) -> NDArray[np.float32]:
    """Filters per phase, time-reversed so that they meet a window of past samples: ``[up, taps]``."""
    taps = ceil(2 * _ZERO_CROSSINGS * max(1.0, down / up))
    length = taps * up
    time = (np.arange(length) - length / 2) / max(up, down)
    prototype = np.sinc(time * _CUTOFF) * np.kaiser(length + 1, _KAISER_BETA)[:length]
    phases = prototype.reshape(taps, up).T[:, ::-1]
    # Each phase passes a constant exactly; otherwise the phases would repeat as a faint tone.
    return np.ascontiguousarray(phases / phases.sum(axis=1, keepdims=True), dtype=np.float32)
