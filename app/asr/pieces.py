"""Long utterances: cut at quiet places, put together again. Whisper hears 30 s at most."""

from __future__ import annotations

import numpy as np

from app.audio.frames import INPUT_RATE_HZ, Pcm

LONGEST_S = 28
"""Of a piece: with a second of margin it fits Whisper's 30 s."""
_SHORTEST_S = 16
"""A cut is looked for between these; early enough that nearly always a pause lies there."""
_STEP = INPUT_RATE_HZ // 50
_QUIET_STEPS = 15
"""A pause is judged over 300 ms: shorter ones lie inside words."""
_UNSPACED = frozenset({"zh", "yue", "ja", "th", "lo", "my", "bo", "km"})


def split_at_quiet(pcm: Pcm) -> list[Pcm]:
    """Consecutive pieces of at most LONGEST_S that together are exactly ``pcm`` (int16 ``[n]``, 16 kHz)."""
    pieces = []
    while len(pcm) > LONGEST_S * INPUT_RATE_HZ:
        cut = _quietest(pcm, _SHORTEST_S * INPUT_RATE_HZ, LONGEST_S * INPUT_RATE_HZ)
        pieces.append(pcm[:cut])
        pcm = pcm[cut:]
    return [*pieces, pcm]


def _quietest(pcm: Pcm, start: int, end: int) -> int:
    """Middle of the 300 ms with the least sound between ``start`` and ``end``."""
    steps = pcm[start:end].reshape(-1, _STEP)
    loudness = np.abs(steps.astype(np.float32)).mean(axis=1)
    smooth = np.convolve(loudness, np.ones(_QUIET_STEPS, np.float32), mode="valid")
    return start + (int(smooth.argmin()) + _QUIET_STEPS // 2) * _STEP


def join_texts(texts: list[str], language: str) -> str:
    """One text, with spaces between the pieces where the language has them."""
    return ("" if language in _UNSPACED else " ").join(text for text in texts if text)
