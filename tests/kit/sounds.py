"""Sounds made by formula: tones to measure with, and noises that nobody spoke."""

from __future__ import annotations

from collections.abc import Sequence

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


def pink(seconds: float, level: float = 0.02, seed: int = 4) -> Pcm:
    """Noise whose power falls with frequency, as rooms have it; ``level`` is its RMS."""
    length = int(seconds * INPUT_RATE_HZ)
    spectrum = np.fft.rfft(np.random.default_rng(seed).normal(0, 1, length))
    spectrum /= np.sqrt(np.maximum(np.arange(len(spectrum)), 1))
    spectrum[: int(30 * seconds)] = 0  # no microphone hears below 30 Hz
    wave = np.fft.irfft(spectrum, length)
    return pcm(level * wave / wave.std())


def fan(seconds: float, level: float = 0.02, seed: int = 5) -> Pcm:
    """Air, the blades' flutter at 24 Hz, and the hum of the motor; ``level`` is the RMS of the air."""
    time = np.arange(int(seconds * INPUT_RATE_HZ)) / INPUT_RATE_HZ
    air = pink(seconds, 0.1, seed) / 32768 * 10 * level * (1 + 0.3 * np.sin(2 * np.pi * 24 * time))
    hum = sum(level / order * np.sin(2 * np.pi * 100 * order * time) for order in (1, 2, 3))
    return pcm(air + hum)


def beats(seconds: float, seed: int = 6) -> Pcm:
    """A drum kit at 120 beats a minute: kick, hi-hat, and a bass note."""
    random = np.random.default_rng(seed)
    time = np.arange(int(seconds * INPUT_RATE_HZ)) / INPUT_RATE_HZ
    wave = 0.1 * np.sin(2 * np.pi * 55 * time) + 0.05 * np.sin(2 * np.pi * 110 * time)
    since_beat, since_half = time % 0.5, time % 0.25
    wave += 0.5 * np.exp(-18 * since_beat) * np.sin(2 * np.pi * (50 + 60 * np.exp(-30 * since_beat)) * since_beat)
    wave += 0.15 * np.exp(-60 * since_half) * np.diff(random.normal(0, 1, len(time) + 1))
    return pcm(wave)


def typing(seconds: float, level: float = 0.3, seed: int = 7) -> Pcm:
    """Seven keys a second: each a click as it goes down, a thump at the bottom, and a softer click as it comes up."""
    random = np.random.default_rng(seed)
    wave = random.normal(0, 0.001, int(seconds * INPUT_RATE_HZ))
    at_s = 0.1
    while at_s < seconds - 0.2:
        for after_s, loud, decay_s in ((0.0, 1.0, 0.002), (0.004, 0.6, 0.012), (0.09, 0.4, 0.003)):
            start, length = int((at_s + after_s) * INPUT_RATE_HZ), int(8 * decay_s * INPUT_RATE_HZ)
            wave[start : start + length] += (
                level * loud * random.normal(0, 0.5, length) * np.exp(-np.arange(length) / (decay_s * INPUT_RATE_HZ))
            )
        at_s += random.uniform(0.08, 0.2)
    return pcm(wave)


def breath(level: float = 0.03, seed: int = 8) -> Pcm:
    """In and out once: noise between 300 and 3000 Hz that swells and fades, close to the microphone."""
    seconds = 2.4
    length = int(seconds * INPUT_RATE_HZ)
    spectrum = np.fft.rfft(np.random.default_rng(seed).normal(0, 1, length))
    hz = np.fft.rfftfreq(length, 1 / INPUT_RATE_HZ)
    spectrum *= 1 / (1 + (300 / np.maximum(hz, 1)) ** 4) / (1 + (hz / 3000) ** 4)
    wave = np.fft.irfft(spectrum, length)
    time = np.arange(length) / INPUT_RATE_HZ
    swell = np.where(time < 1.1, np.sin(np.pi * time / 1.1) ** 2, 0.6 * np.sin(np.pi * (time - 1.1) / 1.3) ** 2)
    return pcm(level * 3 * wave / wave.std() * swell)


def babble(voices: Sequence[Pcm], seconds: float, level: float = 0.005, seed: int = 9) -> Pcm:
    """All ``voices`` at once and over and over, each from a place of its own; ``level`` is the RMS."""
    random = np.random.default_rng(seed)
    length = int(seconds * INPUT_RATE_HZ)
    wave = np.zeros(length)
    for voice in voices:
        wave += np.resize(np.roll(voice.astype(np.float64), int(random.integers(len(voice)))), length)
    return pcm(level * wave / wave.std())


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
