"""The way of the sound between a device's blocks and the session's frames. Pure computation, on the loop."""

from __future__ import annotations

from collections.abc import Iterator

from app.audio.framer import Framer
from app.audio.frames import INPUT_FRAME, INPUT_RATE_HZ, OUTPUT_RATE_HZ, Pcm
from app.audio.resample import Resampler
from app.transports.microphone.echo import ECHO_BLOCK, EchoControl


class Chain:
    """Resamples both ways, keeping state, and runs the echo control on 10 ms blocks at 48 kHz between.

    ``capture_hz`` and ``playback_hz`` are the devices' rates, ``playback_block`` the speaker's block in samples.
    """

    def __init__(self, echo: EchoControl, *, capture_hz: int, playback_hz: int, playback_block: int) -> None:
        self._echo = echo
        self._near = Resampler(capture_hz, OUTPUT_RATE_HZ)
        self._near_blocks = Framer(ECHO_BLOCK)
        self._far = Resampler(playback_hz, OUTPUT_RATE_HZ)
        self._far_blocks = Framer(ECHO_BLOCK)
        self._to_session = Resampler(OUTPUT_RATE_HZ, INPUT_RATE_HZ)
        self._frames = Framer(INPUT_FRAME)
        self._to_speaker = Resampler(OUTPUT_RATE_HZ, playback_hz)
        self._speaker_blocks = Framer(playback_block)

    def speaker(self, pcm: Pcm) -> Iterator[Pcm]:
        """48 kHz from the session becomes the speaker's blocks at its own rate."""
        return self._speaker_blocks.push(self._to_speaker.process(pcm))

    def played(self, block: Pcm) -> None:
        """What really went to the speaker, at its own rate."""
        for far in self._far_blocks.push(self._far.process(block)):
            self._echo.played(far)

    def heard(self, block: Pcm) -> Iterator[Pcm]:
        """What the microphone heard, at its own rate, becomes 20 ms frames at 16 kHz without the echo."""
        for near in self._near_blocks.push(self._near.process(block)):
            yield from self._frames.push(self._to_session.process(self._echo.heard(near)))
