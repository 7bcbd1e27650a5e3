"""A listener's "mm-hm" and "uh-huh" by formula: voices that read text spell them out instead ("M M H M").

Two hummed syllables with a breath between them: harmonics of a glottis and noise, through the resonances of a nose or a
mouth (formants of [m] and [ʌ] after Fant, "Acoustic Theory of Speech Production", 1960, and Peterson and Barney, 1952).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.audio.frames import INPUT_RATE_HZ, Pcm

Hum: TypeAlias = Literal["mm-hm", "uh-huh"]
Formants: TypeAlias = tuple[tuple[float, float], ...]

_FORMANTS: dict[Hum, Formants] = {
    # (frequency, bandwidth) in Hz
    "mm-hm": ((260.0, 60.0), (1000.0, 200.0), (2200.0, 200.0), (2900.0, 250.0)),
    "uh-huh": ((620.0, 80.0), (1190.0, 100.0), (2390.0, 150.0), (3300.0, 200.0)),
}
_FIRST_S, _BREATH_S, _SECOND_S = 0.17, 0.08, 0.24
_BREATH = 0.15
"""Of the peak of what is voiced."""
_EDGE_S = 0.05
_BREATH_EDGE_S = 0.015
_HIGHEST_HZ = 4000.0


def hum(kind: Hum, hertz: float) -> Pcm:
    """Half a second of it by a voice that speaks at ``hertz`` (man 110, woman 200), int16 ``[n]`` at 16 kHz."""
    formants = _FORMANTS[kind]
    wave = np.concatenate(
        [
            _voiced(_FIRST_S, hertz, 0.97 * hertz, formants),
            _breath(_BREATH_S, formants),
            _voiced(_SECOND_S, 1.1 * hertz, 1.35 * hertz, formants),  # rising: "go on"
        ]
    )
    return (wave * 16_000).astype(np.int16)


def _voiced(seconds: float, from_hertz: float, to_hertz: float, formants: Formants) -> NDArray[np.float64]:
    pitch = np.linspace(from_hertz, to_hertz, round(seconds * INPUT_RATE_HZ))
    phase = 2 * np.pi * np.cumsum(pitch) / INPUT_RATE_HZ
    wave = np.zeros(len(pitch))
    for order in range(1, int(_HIGHEST_HZ / max(from_hertz, to_hertz)) + 1):
        wave += _gain(order * pitch, formants) / order * np.sin(order * phase)
    return _edged(wave / np.abs(wave).max(), _EDGE_S)


def _breath(seconds: float, formants: Formants) -> NDArray[np.float64]:
    length = round(seconds * INPUT_RATE_HZ)
    spectrum = np.fft.rfft(np.random.default_rng(1).normal(size=length))
    wave = np.fft.irfft(spectrum * _gain(np.fft.rfftfreq(length, 1 / INPUT_RATE_HZ), formants), length)
    return _BREATH * _edged(wave / np.abs(wave).max(), _BREATH_EDGE_S)


def _gain(hertz: NDArray[np.floating], formants: Formants) -> NDArray[np.float64]:
    """Magnitude of resonators in series, each 1 at 0 Hz."""
    gain = np.ones(len(hertz))
    for centre, width in formants:
        gain *= centre**2 / np.hypot(centre**2 - hertz**2, width * hertz)
    return gain


def _edged(wave: NDArray[np.float64], edge_s: float) -> NDArray[np.float64]:
    edge = min(round(edge_s * INPUT_RATE_HZ), len(wave) // 2)
    ramp = np.linspace(0.0, 1.0, edge)
    wave[:edge] *= ramp
    wave[-edge:] *= ramp[::-1]
    return wave
