"""A session that keeps every frame it is given and says what the test puts into its playout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np

from app.audio.frames import INPUT_FRAME, Pcm
from app.audio.playout import Playout
from app.dialogue.ports import WireEvent


class RecordingSession:
    """A ConversationPort; ``heard`` is what arrived, int16 at 16 kHz."""

    def __init__(self, on_frame: Callable[[RecordingSession, Pcm], None] = lambda session, frame: None) -> None:
        self.id = "recording"
        self.playout = Playout(capacity_s=120.0)
        self.frames: list[Pcm] = []
        self._on_frame = on_frame
        self._closed = asyncio.Event()
        self._generation = 0

    @property
    def heard(self) -> Pcm:
        return np.concatenate(self.frames) if self.frames else np.zeros(0, np.int16)

    def clear(self) -> None:
        self.frames.clear()

    def play(self, pcm: Pcm) -> None:
        """Say ``pcm`` (48 kHz) from now on, instead of anything before it."""
        self._generation += 1
        self.playout.begin(self._generation)
        self.playout.write(self._generation, pcm)
        self.playout.finish(self._generation)

    def push_audio(self, pcm: Pcm) -> None:
        assert pcm.shape == (INPUT_FRAME,)
        assert pcm.dtype == np.int16
        self.frames.append(pcm.copy())
        self._on_frame(self, pcm)

    resume_token = "recording"
    replaced = False
    underruns = 0

    def pull_audio(self, count: int) -> Pcm:
        return self.playout.read(count)

    def receive(self, event: WireEvent) -> None:
        return None

    async def close(self, reason: str) -> None:
        self._closed.set()

    async def leave(self) -> None:
        self._closed.set()

    async def wait_closed(self) -> None:
        await self._closed.wait()
