"""The clock at which sound leaves: every 20 ms, whatever the sending costs."""

from __future__ import annotations

import asyncio
import math

from app.audio.frames import FRAME_MS

_FRAME_S = FRAME_MS / 1000
_MAX_BEHIND_S = 0.06
"""After a stall three frames may follow at once; time lost beyond that is skipped, not sent in a burst."""


class Beat:
    """All transports share one beat: eight calls then wake the loop fifty times a second, not four hundred."""

    def __init__(self) -> None:
        self._due: float | None = None

    async def next(self) -> int:
        """Wait until the next frame is due; returns how many frames of time were skipped because nobody came."""
        now = asyncio.get_running_loop().time()
        self._due = math.ceil(now / _FRAME_S) * _FRAME_S if self._due is None else self._due + _FRAME_S
        if now < self._due:
            await asyncio.sleep(self._due - now)
        elif now - self._due > _MAX_BEHIND_S:
            skipped = int((now - self._due) / _FRAME_S)
            self._due += skipped * _FRAME_S
            return skipped
        return 0
