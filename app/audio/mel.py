"""Log-mel features as Whisper defines them, in numpy alone.

Source: Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision", section 2.2
(80 mel bands, 25 ms windows, 10 ms steps), with the Slaney mel scale that its released code uses.
The recogniser and the turn model both read these.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from app.audio.frames import INPUT_RATE_HZ

WINDOW = 400
"""25 ms at 16 kHz."""
HOP = 160
"""10 ms at 16 kHz."""
_LINEAR_BELOW_HZ = 1000.0
_HZ_PER_MEL = 200.0 / 3.0
_LOG_STEP = np.log(6.4) / 27.0
_DYNAMIC_RANGE = 8.0
"""Powers of ten kept below the loudest cell; what is quieter is raised to that floor."""


def log_mel(wave: NDArray[np.float32], bands: int = 80) -> NDArray[np.float32]:
    """Features of ``wave`` (float32 ``[n]``, 16 kHz, n > 200): float32 ``[bands, n // 160]``, about -1..1.

    The scale is relative to the loudest cell of ``wave``, so the features of a piece cut out of a
    longer sound are not a cut of the longer sound's features.
    """
    padded = np.pad(wave, WINDOW // 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP][: len(wave) // HOP]
    spectrum = np.fft.rfft(windows * _hann())
    power = spectrum.real**2 + spectrum.imag**2
    logs = np.log10(np.maximum(_banded(power, bands), 1e-10))
    floored = np.maximum(logs, logs.max() - _DYNAMIC_RANGE)
    return np.ascontiguousarray((floored + 4.0) / 4.0, dtype=np.float32)


def _banded(power: NDArray[np.floating], bands: int) -> NDArray[np.floating]:
    """``[bands, n]`` of ``[n, 201]``. Sixteen frames at a time: a larger product numpy's BLAS spreads over threads
    that wait for each other by spinning, and where the cores are busy that takes 70 ms instead of 0.2."""
    filters = _filters(bands).T
    return np.concatenate([power[at : at + 16] @ filters for at in range(0, len(power), 16)]).T


@lru_cache(maxsize=1)
def _hann() -> NDArray[np.float32]:
    """The periodic Hann window: symmetric over one sample more than it has."""
    return np.hanning(WINDOW + 1)[:-1].astype(np.float32)


def _mel_to_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    knee = _LINEAR_BELOW_HZ / _HZ_PER_MEL
    above = _LINEAR_BELOW_HZ * np.exp(_LOG_STEP * (np.maximum(mel, knee) - knee))
    return np.where(mel < knee, mel * _HZ_PER_MEL, above)


@lru_cache(maxsize=4)
def _filters(bands: int) -> NDArray[np.float32]:
    """Triangles of equal area between neighbouring mel points: ``[bands, 201]``."""
    top = _LINEAR_BELOW_HZ / _HZ_PER_MEL + np.log(INPUT_RATE_HZ / 2 / _LINEAR_BELOW_HZ) / _LOG_STEP
    points = _mel_to_hz(np.linspace(0.0, top, bands + 2))
    bins = np.fft.rfftfreq(WINDOW, 1.0 / INPUT_RATE_HZ)
    left, centre, right = points[:-2, None], points[1:-1, None], points[2:, None]
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    weights = np.maximum(0.0, np.minimum(rising, falling)) * (2.0 / (right - left))
    return weights.astype(np.float32)
