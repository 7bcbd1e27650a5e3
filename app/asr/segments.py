"""Cuts long sound at quiet places, so that no piece is longer than Whisper can see."""

from __future__ import annotations

import numpy as np

from app.audio.frames import INPUT_RATE_HZ, Pcm

MAX_S = 28.0
"""Whisper sees 30 s; the rest is margin after the last word."""
_SEARCH_S = 10.0
"""How far back from the limit a quiet place is looked for."""
_BLOCK = INPUT_RATE_HZ // 50
_SMOOTH = 10
"""Blocks of 20 ms that must be quiet together: 200 ms."""


def split_at_quiet(pcm: Pcm, max_s: float = MAX_S) -> list[Pcm]:
    """``pcm`` (16 kHz) in pieces of at most ``max_s``, which joined give it back; each but the last ends where it
    is quietest."""
    limit = int(max_s * INPUT_RATE_HZ)
    pieces: list[Pcm] = []
    while len(pcm) > limit:
        cut = _quietest(pcm, limit - int(_SEARCH_S * INPUT_RATE_HZ), limit)
        pieces.append(pcm[:cut])
        pcm = pcm[cut:]
    pieces.append(pcm)
    return pieces


def last_part(pcm: Pcm, max_s: float) -> Pcm:
    """At most the last ``max_s`` of ``pcm`` (16 kHz), from the quietest place in the first third of that on."""
    limit = int(max_s * INPUT_RATE_HZ)
    if len(pcm) <= limit:
        return pcm
    return pcm[_quietest(pcm, len(pcm) - limit, len(pcm) - limit * 2 // 3) :]


def _quietest(pcm: Pcm, start: int, end: int) -> int:
    """The middle of the quietest 200 ms between two samples."""
    blocks = pcm[start:end].astype(np.float32)
    blocks = blocks[: len(blocks) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    energy = np.convolve((blocks**2).mean(axis=1), np.ones(_SMOOTH), mode="valid")
    return start + (int(energy.argmin()) + _SMOOTH // 2) * _BLOCK
