"""Sounds made by formula: tones to measure with, and noises that nobody spoke."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.audio.frames import INPUT_RATE_HZ, Pcm


def pcm(wave: NDArray[np.floating]) -> Pcm:
    """-1..1 to int16, clipped."""
    return (np.clip(wave, -1.0, 1.0) * 32767).astype(np.int16)


def silence(seconds: float, rate_hz: int = INPUT_RATE_HZ) -> Pcm:
    return np.zeros(int(seconds * rate_hz), np.int16)


def tone(hz: float, seconds: float, rate_hz: int = INPUT_RATE_HZ, level: float = 0.4) -> Pcm:
    return pcm(level * np.sin(2 * np.pi * hz * np.arange(int(seconds * rate_hz)) / rate_hz))


def hiss(seconds: float, level: float = 0.02, seed: int = 0) -> Pcm:
    return pcm(np.random.default_rng(seed).normal(0, level, int(seconds * INPUT_RATE_HZ)))


def clicks(seconds: float, seed: int = 2) -> Pcm:
    random = np.random.default_rng(seed)
    wave = random.normal(0, 0.001, int(seconds * INPUT_RATE_HZ))
    for start in random.integers(0, len(wave) - 100, int(seconds * 5)):
        wave[start : start + 100] += random.normal(0, 0.5, 100) * np.exp(-np.arange(100) / 15)
    return pcm(wave)


def cough(seed: int = 3) -> Pcm:
    """Two bursts of broad noise that die away within a quarter of a second."""
    random = np.random.default_rng(seed)
    wave = random.normal(0, 0.001, int(1.5 * INPUT_RATE_HZ))
    for at_s in (0.3, 0.75):
        length = int(0.28 * INPUT_RATE_HZ)
        start = int(at_s * INPUT_RATE_HZ)
        burst = np.diff(random.normal(0, 0.4, length + 1))
        wave[start : start + length] += burst * np.exp(-np.arange(length) / (0.07 * INPUT_RATE_HZ))
    return pcm(wave)


def music(seconds: float) -> Pcm:
    """A plucked tune over a held chord."""
    time = np.arange(int(seconds * INPUT_RATE_HZ)) / INPUT_RATE_HZ
    wave = sum(0.05 * np.sin(2 * np.pi * hz * time) for hz in (130.8, 164.8, 196.0))
    tune = (261.6, 329.6, 392.0, 523.3, 440.0, 349.2)
    for index, start in enumerate(np.arange(0, seconds, 0.5)):
        note = (time >= start) & (time < start + 0.5)
        wave[note] += (
            0.2 * np.exp(-3 * (time[note] - start)) * np.sin(2 * np.pi * tune[index % 6] * (time[note] - start))
        )
    return pcm(np.asarray(wave))


def level_at(sound: Pcm, rate_hz: int, hz: float) -> float:
    """Amplitude (0..1) of the spectral line at ``hz``, Hann-windowed."""
    window = np.hanning(len(sound))
    time = np.arange(len(sound)) / rate_hz
    return float(2 * abs(np.sum(sound / 32768 * window * np.exp(-2j * np.pi * hz * time))) / window.sum())


def pitch(sound: Pcm, rate_hz: int) -> float:
    """Frequency of the strongest line, Hz, by parabolic interpolation."""
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
    peak = int(spectrum[1:-1].argmax()) + 1
    before, at, after = np.log(spectrum[peak - 1 : peak + 2])
    return (peak + 0.5 * (before - after) / (before - 2 * at + after)) * rate_hz / len(sound)
