"""What the sound card needs of a session, and a switch between the two: push-to-talk, or mute."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import numpy as np

from app.audio.frames import INPUT_FRAME, Pcm

_SILENCE: Pcm = np.zeros(INPUT_FRAME, np.int16)
_TAIL_S = 0.25
"""The microphone stays open this long after the key: the last word is still on its way through card and canceller."""


class SoundPort(Protocol):
    """The part of a ``ConversationPort`` that carries sound."""

    def push_audio(self, pcm: Pcm) -> None:
        """What the microphone heard: 16 kHz mono int16 ``[320]``."""
        ...

    def pull_audio(self, count: int) -> Pcm:
        """What the speaker plays next: ``count`` samples at 48 kHz."""
        ...

    async def wait_closed(self) -> None: ...


class Switch:
    """A SoundPort that hears only while it is open; the session gets silence otherwise, so that its clocks go on.

    ``on_open`` is called when the microphone opens, ``on_sent`` once all that was said has been passed on.
    """

    def __init__(
        self,
        port: SoundPort,
        *,
        is_open: bool,
        on_open: Callable[[], None] = lambda: None,
        on_sent: Callable[[], None] = lambda: None,
    ) -> None:
        self._port = port
        self._on_open = on_open
        self._on_sent = on_sent
        self._closing: asyncio.TimerHandle | None = None
        self.is_open = is_open

    def press(self) -> None:
        """Open the microphone. Pressed again within the tail of what was said, that goes on."""
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
        elif not self.is_open:
            self._on_open()
        self.is_open = True

    def release(self) -> None:
        """Close it: what was said is sent."""
        if self.is_open and self._closing is None:
            self._closing = asyncio.get_running_loop().call_later(_TAIL_S, self._send)

    def toggle(self) -> None:
        """For keyboards that do not say when a key is let go."""
        if self.is_open and self._closing is None:
            self.release()
        else:
            self.press()

    @property
    def held(self) -> bool:
        """Whether it is open and was not told to close."""
        return self.is_open and self._closing is None

    def push_audio(self, pcm: Pcm) -> None:
        self._port.push_audio(pcm if self.is_open else _SILENCE)

    def pull_audio(self, count: int) -> Pcm:
        return self._port.pull_audio(count)

    async def wait_closed(self) -> None:
        await self._port.wait_closed()

    def _send(self) -> None:
        self._closing = None
        self.is_open = False
        self._on_sent()
