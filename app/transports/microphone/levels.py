"""How loud a sound is, for a meter to show."""

from __future__ import annotations

import math

from app.audio.frames import Pcm

_FADE_DB = 1.5
"""How much a meter falls per frame at most: a picture that follows every syllable is not calm."""
_QUIETEST_DB = -80.0


class Level:
    """In dBFS of a full-scale sine: up at once, down slowly."""

    def __init__(self) -> None:
        self.db = _QUIETEST_DB

    def add(self, pcm: Pcm) -> None:
        """The next few milliseconds."""
        peak = max(int(pcm.max()), -int(pcm.min()), 1) if len(pcm) else 1
        self.db = max(_QUIETEST_DB, 20.0 * math.log10(peak / 32768.0), self.db - _FADE_DB)
