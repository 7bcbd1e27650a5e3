"""Sound from the network, made even: a short store between its arrival and the speaker's clock."""

from __future__ import annotations

from collections import deque

import numpy as np

from app.audio.frames import OUTPUT_RATE_HZ, Pcm
from app.audio.resample import Resampler

WIRE_RATE_HZ = 24_000
_FIRST_S, _MOST_START_S = 0.06, 0.24
"""Kept in store before playing begins; grows by a half whenever it was not enough."""
_SURPLUS_S = 0.3
"""More than this in store is delay for nothing: silence is then left out until it is gone."""
_CAPACITY_S = 10.0
_SILENT = 64
"""Peak (of 32768) up to which a piece is a pause."""


class NetworkBuffer:
    """24 kHz pieces in, 48 kHz samples out at the reader's pace. All calls belong on one event loop."""

    def __init__(self) -> None:
        self._to_speaker = Resampler(WIRE_RATE_HZ, OUTPUT_RATE_HZ)
        self._pieces: deque[Pcm] = deque()
        self._stored = 0
        self._start = int(_FIRST_S * OUTPUT_RATE_HZ)
        self._playing = False
        self._sounding = False
        self.gaps = 0
        """How often speech broke off because the network was late."""

    @property
    def stored_s(self) -> float:
        return self._stored / OUTPUT_RATE_HZ

    def push(self, data: bytes) -> None:
        """One message: little-endian int16 mono at 24 kHz, of any length; half a sample at its end is left out."""
        sound = np.frombuffer(data[: len(data) // 2 * 2], "<i2").astype(np.int16)
        piece = self._to_speaker.process(sound)
        if not len(piece):
            return
        if self.stored_s > _SURPLUS_S and int(np.abs(piece.astype(np.int32)).max()) <= _SILENT:
            return
        self._pieces.append(piece)
        self._stored += len(piece)
        while self.stored_s > _CAPACITY_S:  # the reader stands still; what is oldest is worth least
            self._stored -= len(self._pieces.popleft())

    def pull(self, count: int) -> Pcm:
        """The next ``count`` samples at 48 kHz; silence where nothing has come."""
        if not self._playing and self._stored >= max(self._start, count):
            self._playing = True
        parts: list[Pcm] = []
        wanted = count
        while self._playing and wanted and self._pieces:
            piece = self._pieces.popleft()
            if len(piece) > wanted:
                self._pieces.appendleft(piece[wanted:])
                piece = piece[:wanted]
            parts.append(piece)
            wanted -= len(piece)
        self._stored -= count - wanted
        if self._playing and wanted:
            self._ran_dry()
        if parts:
            self._sounding = int(np.abs(parts[-1].astype(np.int32)).max()) > _SILENT
        return np.concatenate([*parts, np.zeros(wanted, np.int16)]) if wanted else np.concatenate(parts)

    def clear(self) -> None:
        """Forget what is stored: the connection it came by is gone."""
        self._pieces.clear()
        self._stored = 0
        self._playing = False

    def _ran_dry(self) -> None:
        self._playing = False
        if self._sounding:  # a pause between replies looks the same, but nobody hears it
            self.gaps += 1
            self._start = min(int(_MOST_START_S * OUTPUT_RATE_HZ), self._start * 3 // 2)
