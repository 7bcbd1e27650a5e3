"""Keeping the assistant's own voice out of what the microphone hears."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Any, Protocol

import numpy as np

from app.audio.frames import OUTPUT_RATE_HZ, Pcm
from app.transports.microphone.delay import DelayMeter

ECHO_BLOCK = OUTPUT_RATE_HZ // 100
"""10 ms at 48 kHz: the only block that WebRTC's audio processing accepts."""

_ROOM_BLOCKS = 25
"""250 ms: how long a living room goes on sounding after the speaker fell silent."""
_LONGEST_DELAY_MS = 500
_MEASURES = 3
_MEASURE_EVERY = 4
"""Calls of ``set_delay``: about once a second."""
_LOUD = 64
"""Peak (of 32768) above which a played block can be heard back: -54 dBFS."""


class EchoControl(Protocol):
    """Sees every block that was played and every block that was heard, both 10 ms at 48 kHz mono int16."""

    @property
    def description(self) -> str:
        """How echo is dealt with, as told to the user."""
        ...

    @property
    def cancels(self) -> bool:
        """Whether it takes the assistant out and leaves the user."""
        ...

    def played(self, block: Pcm) -> None: ...

    def heard(self, block: Pcm) -> Pcm:
        """``block`` without what was played."""
        ...

    def set_delay(self, delay_ms: int) -> None:
        """From a block's ``played`` to its echo's ``heard``, as the devices report it: both latencies together. Called
        at the start and again several times a second."""
        ...

    @property
    def measured_ms(self) -> float | None:
        """The same as it really was of late; None where nobody measures, or nothing comes back."""
        ...


class Canceller:
    """WebRTC's echo canceller (AEC3), noise suppressor and high-pass filter. About 1 % of a core.

    No automatic gain: it pumps the noise floor up in pauses, where the voice detector listens.
    The delay it is told is the one reported by the devices until the assistant has been heard for two seconds, then
    the one measured on its voice. AEC3 takes that as a first guess and follows the rest itself, up to 0.5 s.
    """

    description = "echo is cancelled, so you can speak over the assistant"
    cancels = True

    def __init__(self) -> None:
        """Raises ImportError or OSError where the ``livekit`` package or its library is missing."""
        from livekit import rtc

        self._frame: Any = rtc.AudioFrame
        self._module: Any = rtc.AudioProcessingModule(
            echo_cancellation=True, noise_suppression=True, high_pass_filter=True
        )
        self._meter = DelayMeter()
        self._calls = 0
        self._measured: deque[float] = deque(maxlen=_MEASURES)

    def played(self, block: Pcm) -> None:
        self._meter.played(block)
        self._module.process_reverse_stream(self._wrap(block))

    def heard(self, block: Pcm) -> Pcm:
        self._meter.heard(block)
        frame = self._wrap(block)
        self._module.process_stream(frame)
        return np.frombuffer(frame.data, np.int16)

    def set_delay(self, delay_ms: int) -> None:
        self._calls += 1
        if self._calls % _MEASURE_EVERY == 0 and (found := self._meter.measure()) is not None:
            self._measured.append(found)
        true_ms = self.measured_ms if self.measured_ms is not None else delay_ms
        self._module.set_stream_delay_ms(max(0, min(_LONGEST_DELAY_MS, round(true_ms))))

    @property
    def measured_ms(self) -> float | None:
        """The middle one of the last few: a single one may be a chance."""
        return median(self._measured) if len(self._measured) == _MEASURES else None

    def _wrap(self, block: Pcm) -> Any:
        # A bytearray, because the module writes its result into the frame's own memory.
        return self._frame(bytearray(block.tobytes()), OUTPUT_RATE_HZ, 1, len(block))


class HalfDuplex:
    """Deaf while the assistant speaks and until its echo has died away."""

    cancels = False
    description = "no echo canceller: the microphone is off while the assistant speaks, so it cannot be interrupted"

    def __init__(self, reason: str) -> None:
        self.description = f"{self.description} ({reason})"
        self._deaf_blocks = 0
        self._delay_blocks = 10

    def played(self, block: Pcm) -> None:
        if len(block) and int(np.abs(block.astype(np.int32)).max()) > _LOUD:
            self._deaf_blocks = self._delay_blocks + _ROOM_BLOCKS

    def heard(self, block: Pcm) -> Pcm:
        if not self._deaf_blocks:
            return block
        self._deaf_blocks -= 1
        return np.zeros_like(block)

    def set_delay(self, delay_ms: int) -> None:
        self._delay_blocks = -(-delay_ms // 10)

    @property
    def measured_ms(self) -> float | None:
        return None


class Headphones:
    """Sound passes as it is: for headphones, or a sound card that cancels echo itself."""

    cancels = False
    description = "echo cancellation is off (audio.echo_cancellation = false): use headphones"

    def played(self, block: Pcm) -> None:
        return None

    def heard(self, block: Pcm) -> Pcm:
        return block

    def set_delay(self, delay_ms: int) -> None:
        return None

    @property
    def measured_ms(self) -> float | None:
        return None


def choose_echo_control(wanted: bool) -> EchoControl:
    """The canceller if ``wanted`` and installed, half-duplex if wanted and not to be had, else nothing."""
    if not wanted:
        return Headphones()
    try:
        return Canceller()
    except Exception as error:  # whatever the native library raises, talking half-duplex beats not talking
        return HalfDuplex(f"install it with `pip install livekit`; {type(error).__name__}: {error}")
