"""The two PortAudio streams: 10 ms blocks between the sound card's thread and ours, through bounded queues.

Separate input and output streams, because a duplex stream ties the two devices' clocks together and
was seen to sit at 0.7 s of latency, or to capture nothing, with PulseAudio.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.audio.frames import OUTPUT_RATE_HZ, Pcm
from app.audio.resample import downmix
from app.transports.microphone.devices import Device, DeviceError, Direction, explain, portaudio

BLOCK_MS = 10
_LATENCY_S = 0.04
"""Asked of PortAudio: four blocks. Less misses the card's deadline while the models compute, more is heard as delay."""
_QUEUED_BLOCKS = 100
"""1 s: only a loop that stands still fills this, and then the oldest sound is the least worth keeping."""


@dataclass(frozen=True, slots=True)
class StreamFormat:
    rate_hz: int
    channels: int

    @property
    def block(self) -> int:
        """Samples per channel in one block."""
        return self.rate_hz * BLOCK_MS // 1000


class _Stream(ABC):
    """What both directions share: opening with fall-backs, the signs of life, and closing."""

    def __init__(self, device: Device, direction: Direction, kind: str, wake: Callable[[], None]) -> None:
        self.device = device
        self.latency_s = _LATENCY_S
        """Between this program and the air: PortAudio's measurements, smoothed."""
        self._wake = wake
        self._closing = False
        self._last_block_s = time.monotonic()
        self.format, self._stream = self._open(direction, kind)
        self.latency_s = float(self._stream.latency)

    def start(self) -> None:
        self._last_block_s = time.monotonic()
        self._stream.start()

    @property
    def silent_for_s(self) -> float:
        """Since the card last asked for or gave sound."""
        return time.monotonic() - self._last_block_s

    @property
    def alive(self) -> bool:
        return not self._closing and bool(self._stream.active)

    def close(self) -> None:
        self._closing = True
        # Abort, not stop: stop waits for the card to play what it holds, which a dead card never does.
        self._stream.abort(ignore_errors=True)
        self._stream.close(ignore_errors=True)

    def _open(self, direction: Direction, kind: str) -> tuple[StreamFormat, Any]:
        sounddevice: Any = portaudio()
        error: Exception | None = None
        for candidate in _formats(self.device, direction):
            try:
                stream = getattr(sounddevice, kind)(
                    device=self.device.index,
                    samplerate=candidate.rate_hz,
                    channels=candidate.channels,
                    dtype="int16",
                    blocksize=candidate.block,
                    latency=_LATENCY_S,
                    callback=self._callback,
                )
            except sounddevice.PortAudioError as refused:
                error = error or refused
            else:
                return candidate, stream
        assert error is not None
        raise DeviceError(explain(error, self.device, direction)) from error

    @abstractmethod
    def _callback(self, data: Any, frames: int, timing: Any, status: Any) -> None:
        """Runs on PortAudio's thread once a block: no locks, no waiting, no exceptions."""


class CaptureStream(_Stream):
    """The microphone. ``take`` gives what it heard, oldest first."""

    def __init__(self, device: Device, wake: Callable[[], None]) -> None:
        self.overflows = 0
        """Blocks lost because nobody took them in time, here or in the driver."""
        self._blocks: deque[bytes] = deque(maxlen=_QUEUED_BLOCKS)
        super().__init__(device, "input", "RawInputStream", wake)

    def take(self, most: int) -> Iterator[Pcm]:
        """Up to ``most`` blocks, mono int16 at the stream's own rate."""
        while most and self._blocks:
            yield downmix(np.frombuffer(self._blocks.popleft(), np.int16), self.format.channels)
            most -= 1

    @property
    def waiting(self) -> int:
        return len(self._blocks)

    def _callback(self, data: Any, frames: int, timing: Any, status: Any) -> None:
        self._last_block_s = time.monotonic()
        if status.input_overflow or len(self._blocks) == _QUEUED_BLOCKS:
            self.overflows += 1
        self._blocks.append(bytes(data))
        self.latency_s += 0.1 * (max(0.0, timing.currentTime - timing.inputBufferAdcTime) - self.latency_s)
        self._wake()


class PlaybackStream(_Stream):
    """The speaker. It drains a short ring that its owner keeps filled, and remembers what it played."""

    def __init__(self, device: Device, wake: Callable[[], None]) -> None:
        self.underruns = 0
        """Blocks of silence put in because the ring was empty, or missed by the card because we came too late."""
        self._ring: deque[bytes] = deque()
        self._played: deque[bytes] = deque(maxlen=_QUEUED_BLOCKS)
        super().__init__(device, "output", "RawOutputStream", wake)
        self._silence = bytes(self.format.block * self.format.channels * 2)

    @property
    def queued(self) -> int:
        """Blocks in the ring."""
        return len(self._ring)

    def put(self, block: Pcm) -> None:
        """Add one block (mono int16 ``[format.block]``). The owner bounds the ring by looking at ``queued``."""
        channels = self.format.channels
        self._ring.append((block if channels == 1 else np.repeat(block, channels)).tobytes())

    def take_played(self) -> Iterator[Pcm]:
        """The blocks that went to the card since the last call, silence included: the canceller's far end."""
        while self._played:
            yield downmix(np.frombuffer(self._played.popleft(), np.int16), self.format.channels)

    def _callback(self, data: Any, frames: int, timing: Any, status: Any) -> None:
        self._last_block_s = time.monotonic()
        try:
            block = self._ring.popleft()
        except IndexError:
            block = self._silence
            self.underruns += 1
        if status.output_underflow:
            self.underruns += 1
        data[:] = block
        self._played.append(block)
        self.latency_s += 0.1 * (max(0.0, timing.outputBufferDacTime - timing.currentTime) - self.latency_s)
        self._wake()


def _formats(device: Device, direction: Direction) -> list[StreamFormat]:
    """What to ask for, best first: Parley's own rate and mono, then what the device says it does by itself."""
    channels = (1, 2) if device.channels(direction) > 1 else (1,)
    rates = dict.fromkeys((OUTPUT_RATE_HZ, device.rate_hz))
    return [StreamFormat(rate, count) for rate in rates for count in channels]
