"""Sound by formula, and what of a sound can be measured: its level, its edges, its pauses.

All sound is int16 ``[n]`` at 16 kHz unless said otherwise; everything is a function of its arguments and a seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.audio.frames import INPUT_RATE_HZ, Pcm

Noise: TypeAlias = Literal["pink", "fan", "typing", "cough", "click", "music", "hiss"]

_BLOCK = INPUT_RATE_HZ // 200
"""5 ms: the grain at which edges and pauses are found."""
_EDGE_DB = -35.0
"""Below the loudest 5 ms by this much, speech is over: a voice's last breath is not what anybody waits for."""
_FADE = INPUT_RATE_HZ // 200
_MOST_RUNS = 14
"""Pauses among which a choice is made: all choices of three are tried."""
_BLOCKS_AWAY = 0.3
"""How much longer a pause must be for each block that it lies farther from where it is expected."""


def silence(seconds: float) -> Pcm:
    return np.zeros(round(seconds * INPUT_RATE_HZ), np.int16)


def to_pcm(wave: NDArray[np.floating]) -> Pcm:
    """-1..1 to int16, clipped."""
    return _clipped(wave * 32767.0)


def mixed(*sounds: Pcm) -> Pcm:
    """Their sum, as long as the longest, clipped at full scale."""
    total = np.zeros(max(len(sound) for sound in sounds), np.int32)
    for sound in sounds:
        total[: len(sound)] += sound
    return _clipped(total)


def scaled(sound: Pcm, decibels: float) -> Pcm:
    return _clipped(sound * 10.0 ** (decibels / 20.0))


def _clipped(wave: NDArray[Any]) -> Pcm:
    pcm: Pcm = np.clip(wave, -32768, 32767).astype(np.int16)
    return pcm


def levels(sound: Pcm) -> NDArray[np.float64]:
    """RMS of each whole 5 ms block, ``[n // 80]``."""
    blocks = len(sound) // _BLOCK
    squares = sound[: blocks * _BLOCK].astype(np.float64).reshape(blocks, _BLOCK) ** 2
    rms: NDArray[np.float64] = np.sqrt(squares.mean(axis=1))
    return rms


def active_rms(sound: Pcm) -> float:
    """RMS of the blocks that sound: pauses do not make speech quieter (ITU-T P.56 has the idea)."""
    rms = levels(sound)
    if not len(rms) or rms.max() == 0.0:
        return 0.0
    loud = rms[_sounds(rms)]
    return float(np.sqrt((loud**2).mean()))


def at_level(sound: Pcm, rms: float) -> Pcm:
    """``sound`` with an active RMS of ``rms`` (of 32768)."""
    present = active_rms(sound)
    return scaled(sound, 20.0 * float(np.log10(rms / present))) if present else sound


def trimmed(sound: Pcm) -> Pcm:
    """Cut to where it sounds, so that its last sample is the end of what was said; 5 ms of fade at each edge."""
    rms = levels(sound)
    loud = np.flatnonzero(_sounds(rms)) if len(rms) else rms
    if not len(loud):
        return sound[:0]
    cut = sound[int(loud[0]) * _BLOCK : (int(loud[-1]) + 1) * _BLOCK].astype(np.float64)
    fade = np.linspace(0.0, 1.0, min(_FADE, len(cut)))
    cut[: len(fade)] *= fade
    cut[-len(fade) :] *= fade[::-1]
    return cut.astype(np.int16)


def pauses_near(sound: Pcm, places: Sequence[float]) -> list[tuple[int, int]]:
    """(first, end) sample of the pause that each of ``places`` (0..1 of the sound, rising) seems to mean.

    Of all choices the one whose pauses are long and near; a sound with too few is cut at its quietest 5 ms instead.
    """
    rms = levels(sound)
    quiet = ~_sounds(rms)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], quiet, [False]]).astype(np.int8)))
    runs = [(int(first), int(end)) for first, end in edges.reshape(-1, 2) if first > 0 and end < len(rms)]
    longest = sorted(sorted(runs, key=lambda run: run[0] - run[1])[:_MOST_RUNS])
    wanted = [place * len(rms) for place in places]

    def worth(chosen: Iterable[tuple[int, int]]) -> float:
        return sum(
            (end - first) - _BLOCKS_AWAY * abs((first + end) / 2 - place)
            for (first, end), place in zip(chosen, wanted, strict=True)
        )

    found = list(max(combinations(longest, len(wanted)), key=worth, default=()))
    if len(found) < len(wanted):
        found = [(at, at + 1) for at in (_quietest(rms, place) for place in wanted)]
    return [(first * _BLOCK, end * _BLOCK) for first, end in found]


def _quietest(rms: NDArray[np.float64], place: float) -> int:
    first = int(place * 0.9)
    return first + int(rms[first : max(int(place * 1.1), first + 1)].argmin())


def _sounds(rms: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray(rms > rms.max() * 10.0 ** (_EDGE_DB / 20.0))


# What nobody says


def noise(kind: Noise, seconds: float, seed: int) -> Pcm:
    """``seconds`` of it at a level of its own; ``at_level`` and ``scaled`` set another."""
    length, random = round(seconds * INPUT_RATE_HZ), np.random.default_rng(seed)
    match kind:
        case "pink":
            wave = _pink(length, random)
        case "fan":
            wave = _fan(length, random)
        case "typing":
            wave = _typing(length, random)
        case "cough":
            wave = _cough(length, random)
        case "click":
            wave = _click(length, random)
        case "music":
            wave = _music(length)
        case "hiss":
            wave = random.normal(0.0, 0.02, length)
    return to_pcm(wave)


def _pink(length: int, random: np.random.Generator, exponent: float = 0.5) -> NDArray[np.float64]:
    """White noise whose spectrum is weighted by 1 / f ** exponent, 0.1 RMS."""
    spectrum = np.fft.rfft(random.normal(0.0, 1.0, length))
    hertz = np.fft.rfftfreq(length, 1.0 / INPUT_RATE_HZ)
    spectrum *= 1.0 / np.maximum(hertz, 20.0) ** exponent
    wave = np.fft.irfft(spectrum, length)
    return np.asarray(0.1 * wave / wave.std())


def _fan(length: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Rushing air under the hum of a motor and its blades."""
    time = np.arange(length) / INPUT_RATE_HZ
    hum = sum(0.02 / order * np.sin(2 * np.pi * 118.0 * order * time) for order in (1, 2, 3, 5))
    return _pink(length, random, exponent=0.8) + hum


def _typing(length: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Four to nine keys a second, each a click down and a softer one up."""
    wave = random.normal(0.0, 0.0005, length)
    at = int(0.1 * INPUT_RATE_HZ)
    while at < length - INPUT_RATE_HZ // 5:
        for offset_s, loudness in ((0.0, 0.25), (0.07, 0.1)):
            start = at + int(offset_s * INPUT_RATE_HZ)
            key = random.normal(0.0, loudness * random.uniform(0.5, 1.0), 160) * np.exp(-np.arange(160) / 30)
            wave[start : start + 160] += key
        at += int(random.uniform(0.11, 0.25) * INPUT_RATE_HZ)
    return wave


def _cough(length: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Two bursts from a throat: broad noise with a bump about 700 and 1,500 Hz that dies away."""
    wave = random.normal(0.0, 0.0005, length)
    for at_s in (0.0, 0.42):
        start = int(at_s * INPUT_RATE_HZ)
        burst = random.normal(0.0, 1.0, min(int(0.3 * INPUT_RATE_HZ), max(0, length - start)))
        if not len(burst):
            continue
        spectrum = np.fft.rfft(burst)
        hertz = np.fft.rfftfreq(len(burst), 1.0 / INPUT_RATE_HZ)
        spectrum *= 0.15 + np.exp(-(((hertz - 700) / 300) ** 2)) + 0.7 * np.exp(-(((hertz - 1500) / 500) ** 2))
        shaped = np.fft.irfft(spectrum, len(burst)) * np.exp(-np.arange(len(burst)) / (0.08 * INPUT_RATE_HZ))
        wave[start : start + len(burst)] += 0.5 * shaped / np.abs(shaped).max()
    return wave


def _click(length: int, random: np.random.Generator) -> NDArray[np.float64]:
    """A mouse, or a cup put down, every 0.6 s."""
    wave = random.normal(0.0, 0.0005, length)
    for start in range(0, length - 400, int(0.6 * INPUT_RATE_HZ)):
        wave[start : start + 400] += random.normal(0.0, 0.5, 400) * np.exp(-np.arange(400) / 60)
    return wave


def _music(length: int) -> NDArray[np.float64]:
    """A plucked tune over a held chord, two notes a second."""
    time = np.arange(length) / INPUT_RATE_HZ
    wave = sum(0.05 * np.sin(2 * np.pi * hertz * time) for hertz in (130.8, 164.8, 196.0))
    tune = np.array((261.6, 329.6, 392.0, 523.3, 440.0, 349.2))
    since = time % 0.5
    hertz = tune[(time // 0.5).astype(int) % len(tune)]
    return np.asarray(wave + 0.2 * np.exp(-3.0 * since) * np.sin(2 * np.pi * hertz * since))
