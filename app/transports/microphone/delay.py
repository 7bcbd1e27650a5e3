"""How long the assistant's sound takes from this program through speaker, room and microphone back: measured on speech.

No test tone is played: what the assistant says anyway is found again in what the microphone hears, by generalised
cross-correlation with phase transform (Knapp and Carter 1976, IEEE Transactions ASSP-24).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.audio.frames import OUTPUT_RATE_HZ, Pcm

_DECIMATE = 6
_RATE_HZ = OUTPUT_RATE_HZ // _DECIMATE
"""8 kHz: speech is below 4 kHz, and 1/8 ms is finer than anybody needs."""
_WINDOW = 2 * _RATE_HZ
"""2 s of both sides."""
_LONGEST = _RATE_HZ // 2
"""0.5 s: the canceller looks no further."""
_AUDIBLE = 200.0
"""RMS (of 32768) that the assistant must have on average."""
_CLEAR = 8.0
"""How far the peak must stand out above the mean of all delays."""


@dataclass(slots=True)
class DelayMeter:
    """Collects both sides, block by block in step; ``measure`` looks for the one in the other."""

    _far: NDArray[np.float32] = field(default_factory=lambda: np.zeros(_WINDOW, np.float32))
    _near: NDArray[np.float32] = field(default_factory=lambda: np.zeros(_WINDOW, np.float32))

    def played(self, block: Pcm) -> None:
        """48 kHz, a multiple of 6 samples."""
        self._far = _append(self._far, block)

    def heard(self, block: Pcm) -> None:
        self._near = _append(self._near, block)

    def measure(self) -> float | None:
        """Milliseconds from ``played`` to ``heard``; None where nothing clear is to be heard. About 3 ms of work."""
        far, near = self._far, self._near
        if float(np.sqrt(np.mean(far**2))) < _AUDIBLE:
            return None
        size = 2 * _WINDOW
        cross = np.fft.rfft(near, size) * np.conj(np.fft.rfft(far, size))
        cross /= np.abs(cross) + 1e-3 * float(np.abs(cross).max()) + 1e-9
        found = np.abs(np.fft.irfft(cross, size)[:_LONGEST])
        peak = int(np.argmax(found))
        if found[peak] < _CLEAR * float(found.mean()):
            return None
        return 1000.0 * peak / _RATE_HZ


def _append(window: NDArray[np.float32], block: Pcm) -> NDArray[np.float32]:
    new = block.reshape(-1, _DECIMATE).mean(axis=1, dtype=np.float32)
    return np.concatenate([window[len(new) :], new])
