"""Sound as Opus packets of 20 ms: what callers send is encoded before the call, what they hear decoded after it.

A caller then does little more than move packets, and takes next to nothing from the server whose cores it shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import av
import numpy as np
from numpy.typing import NDArray

from app.audio import OUTPUT_FRAME, OUTPUT_RATE_HZ, Pcm
from app.audio.resample import downmix

TIME_BASE = Fraction(1, OUTPUT_RATE_HZ)
PACKET_S = OUTPUT_FRAME / OUTPUT_RATE_HZ
SPEECH_LEVEL = 328
"""Samples beyond this (-40 dBFS, 34 dB below the loudest sample of every clip) are speech."""
_BIT_RATE = 32_000
"""Of one voice in mono, as browsers send it."""
_LOOKAHEAD = 312
"""Samples by which libopus delays the sound at 48 kHz (6.5 ms)."""
_ROOM_RMS = 10.0
"""-70 dBFS: a quiet room. No microphone gives digital silence, and a voice detector should not be asked to judge it."""
_ROOM_S = 2.0
_LEAD_S, _TAIL_S = 0.1, 0.2
"""Room around a clip, so that neither encoder nor decoder starts in the middle of a word."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A clip ready to be sent; ``first`` and ``last`` are the packets with its first and last sample of speech."""

    packets: tuple[bytes, ...]
    first: int
    last: int


def spoken(pcm: Pcm, seed: int = 0) -> Spoken:
    """``pcm`` (int16, 48 kHz) said in a quiet room. Raises ValueError if nothing in it is loud enough to be speech."""
    loud = np.flatnonzero(np.abs(pcm.astype(np.int32)) > SPEECH_LEVEL)
    if not len(loud):
        raise ValueError("there is no speech in the clip")
    lead, tail = (np.zeros(int(seconds * OUTPUT_RATE_HZ), np.int16) for seconds in (_LEAD_S, _TAIL_S))
    sound = np.concatenate([lead, pcm, tail])
    first, last = (int((len(lead) + loud[at] + _LOOKAHEAD) // OUTPUT_FRAME) for at in (0, -1))
    return Spoken(tuple(encode(_in_room(sound, seed))), first, last)


def room(seed: int = 0) -> tuple[bytes, ...]:
    """Two seconds of a quiet room, to be sent over and over while nobody speaks."""
    return tuple(encode(_in_room(np.zeros(int(_ROOM_S * OUTPUT_RATE_HZ), np.int16), seed)))


def _in_room(pcm: Pcm, seed: int) -> Pcm:
    noise = np.random.default_rng(seed).normal(0.0, _ROOM_RMS, len(pcm))
    return np.clip(np.rint(pcm + noise), -32768, 32767).astype(np.int16)


def encode(pcm: Pcm) -> list[bytes]:
    """Packets of ``pcm`` (int16, 48 kHz), its end filled up with silence."""
    encoder = av.CodecContext.create("libopus", "w")
    encoder.sample_rate, encoder.layout, encoder.format = OUTPUT_RATE_HZ, "mono", "s16"
    encoder.bit_rate, encoder.time_base = _BIT_RATE, TIME_BASE
    encoder.options = {"application": "voip"}
    packets: list[bytes] = []
    padded = np.concatenate([pcm, np.zeros(-len(pcm) % OUTPUT_FRAME, np.int16)])
    for at in range(0, len(padded), OUTPUT_FRAME):
        frame = av.AudioFrame.from_ndarray(padded[at : at + OUTPUT_FRAME].reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate, frame.time_base, frame.pts = OUTPUT_RATE_HZ, TIME_BASE, at
        packets += [bytes(packet) for packet in encoder.encode(frame)]
    return packets


def decode(packets: Iterable[bytes]) -> list[Pcm]:
    """The sound of each packet (int16, 48 kHz mono), in the order given: a decoder remembers what came before."""
    decoder = av.CodecContext.create("libopus", "r")
    decoder.sample_rate, decoder.layout, decoder.format = OUTPUT_RATE_HZ, "stereo", "s16"
    sounds: list[Pcm] = []
    for payload in packets:
        packet = av.Packet(payload)
        packet.time_base = TIME_BASE
        frames = decoder.decode(packet)
        parts = [downmix(frame.to_ndarray(), len(frame.layout.channels)) for frame in frames]
        sounds.append(np.concatenate(parts) if parts else np.zeros(0, np.int16))
    return sounds


def rms_dbfs(sounds: Sequence[Pcm]) -> NDArray[np.float64]:
    """Level of each sound; -inf for digital silence."""
    rms = np.array([np.sqrt(np.mean(np.square(sound, dtype=np.float64))) if len(sound) else 0.0 for sound in sounds])
    with np.errstate(divide="ignore"):
        return 20.0 * np.log10(rms / 32768.0)
