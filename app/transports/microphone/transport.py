"""A session on this machine's own microphone and speaker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from app.audio.frames import OUTPUT_RATE_HZ
from app.config.settings import AudioSettings
from app.transports.microphone.chain import Chain
from app.transports.microphone.devices import (
    Device,
    DeviceError,
    Direction,
    NoDeviceError,
    find_device,
    portaudio,
    rescan,
)
from app.transports.microphone.echo import EchoControl, choose_echo_control
from app.transports.microphone.levels import Level
from app.transports.microphone.seat import SoundPort
from app.transports.microphone.streams import BLOCK_MS, CaptureStream, PlaybackStream
from app.transports.microphone.thread import DeviceThread

_RING_MS, _LONGEST_RING_MS = 30, 60
"""What lies between the session and the card. What is pulled counts as heard, so it is kept short; it grows
by a block at each underrun, because a machine that was late once is late again."""
_BLOCKS_A_STEP = 4
"""Blocks of the microphone handled before the loop gets its turn: about 1 ms of work."""
_DEAD_S = 2.0
"""A card that asks for nothing this long is gone: PortAudio does not always say so."""
_LOOK_EVERY_S = 0.25
_OPEN_TIMEOUT_S, _CLOSE_TIMEOUT_S = 5.0, 0.7
_RETRY_S, _LONGEST_RETRY_S = 0.5, 5.0

_S = TypeVar("_S", CaptureStream, PlaybackStream)


@dataclass(frozen=True, slots=True)
class MicrophoneStats:
    """Since the start, over all devices used. Latencies in ms, as the devices report them now."""

    underruns: int = 0
    overflows: int = 0
    reopened: int = 0
    capture_ms: float = 0.0
    playback_ms: float = 0.0
    echo_ms: float | None = None
    """From this program through speaker, room and microphone back, measured; None until an echo was heard."""


@dataclass(slots=True)
class _Open:
    """One pair of running streams."""

    capture: CaptureStream | None
    playback: PlaybackStream
    chain: Chain
    underruns_seen: int = 0

    @property
    def streams(self) -> list[CaptureStream | PlaybackStream]:
        return [self.playback] if self.capture is None else [self.capture, self.playback]

    def close(self) -> None:
        # Both, even if the first cannot be closed: an open stream forbids looking for devices again.
        try:
            if self.capture is not None:
                self.capture.close()
        finally:
            self.playback.close()


class MicrophoneTransport:
    """Carries sound between the sound card and one session until the session ends.

    ``say`` gets plain lines for the user: devices used, how echo is dealt with, what failed and what is
    done about it. All methods belong on the event loop; PortAudio's blocking calls have a thread of their own.
    """

    def __init__(
        self,
        settings: AudioSettings,
        *,
        say: Callable[[str], None],
        echo: EchoControl | None = None,
        listens: bool = True,
    ) -> None:
        """Without ``listens`` only the speaker is used, and no microphone is needed."""
        self._settings = settings
        self._say = say
        self._listens = listens
        self._echo = echo or choose_echo_control(settings.echo_cancellation)
        self._thread = DeviceThread()
        self._open: _Open | None = None
        self._session: SoundPort | None = None
        self._ring_blocks = _RING_MS // BLOCK_MS
        self._closed_stats = MicrophoneStats()
        self._woken = False
        self.heard = Level()
        """How loud the user is, as the session hears it..."""
        self.spoken = Level()
        """...and the assistant."""

    @property
    def stats(self) -> MicrophoneStats:
        return self._closed_stats if self._open is None else self._count(self._open)

    async def run(self, session: SoundPort) -> None:
        """Talk until ``session`` ends or this is cancelled; devices that fail are replaced meanwhile.

        Raises NoDeviceError or DeviceError only when there is nothing to begin with. Does not close the session.
        """
        self._session = session
        closed = asyncio.ensure_future(session.wait_closed())
        try:
            opened = await self._start(self._settings.input_device, self._settings.output_device)
            echo = f"; {self._echo.description}" if self._listens else ""
            devices = _devices(opened)
            self._say(f"{devices[0].upper()}{devices[1:]}{echo}.")
            while not await self._watch(opened, closed):
                replaced = await self._replace(closed)
                if replaced is None:
                    return
                opened = replaced
        finally:
            closed.cancel()
            self._session = None
            await self._shut()
            self._thread.stop()

    async def _watch(self, opened: _Open, closed: asyncio.Future[None]) -> bool:
        """True once the session has ended, False once a device has failed."""
        while True:
            done, _ = await asyncio.wait({closed}, timeout=_LOOK_EVERY_S)
            if done:
                return True
            for stream in opened.streams:
                if not stream.alive or stream.silent_for_s > _DEAD_S:
                    self._say(f"The sound device {stream.device.name!r} was lost; looking for the default one.")
                    return False
            self._echo.set_delay(round(1000 * sum(stream.latency_s for stream in opened.streams)))

    async def _replace(self, closed: asyncio.Future[None]) -> _Open | None:
        """Open the default devices, for as long as it takes; None when the session ended first."""
        await self._shut()
        pause_s, told = _RETRY_S, ""
        while not closed.done():
            try:
                opened = await self._start("", "", look_again=True)
            except DeviceError as error:
                if str(error) != told:
                    told = str(error)
                    self._say(f"{told} Trying again.")
                await asyncio.wait({closed}, timeout=pause_s)
                pause_s = min(2 * pause_s, _LONGEST_RETRY_S)
            else:
                self._closed_stats = replace(self._closed_stats, reopened=self._closed_stats.reopened + 1)
                self._say(f"Going on with {_devices(opened)}.")
                return opened
        return None

    async def _start(self, wanted_input: str, wanted_output: str, *, look_again: bool = False) -> _Open:
        loop = asyncio.get_running_loop()

        def wake() -> None:
            # On PortAudio's threads. One call in flight is enough: the step takes all that is there.
            if not self._woken:
                self._woken = True
                with suppress(RuntimeError):  # the loop is closing
                    loop.call_soon_threadsafe(self._step)

        streams: list[CaptureStream | PlaybackStream] = []

        def close_streams() -> None:
            while streams:
                streams.pop().close()

        def open_streams() -> _Open:
            if look_again:
                rescan()
            said: list[str] = []
            try:
                capture = None
                if self._listens:
                    capture = _first_usable(wanted_input, "input", lambda device: CaptureStream(device, wake), said)
                    streams.append(capture)
                playback = _first_usable(wanted_output, "output", lambda device: PlaybackStream(device, wake), said)
                streams.append(playback)
                for stream in reversed(streams):
                    stream.start()
            except portaudio().PortAudioError as error:
                close_streams()
                raise DeviceError(f"The sound devices would not start: {error}") from error
            except BaseException:
                close_streams()
                raise
            for line in said:
                loop.call_soon_threadsafe(self._say, line)
            chain = Chain(
                self._echo,
                capture_hz=capture.format.rate_hz if capture is not None else OUTPUT_RATE_HZ,
                playback_hz=playback.format.rate_hz,
                playback_block=playback.format.block,
            )
            return _Open(capture, playback, chain)

        try:
            self._open = await self._thread.call(open_streams, timeout_s=_OPEN_TIMEOUT_S)
        except BaseException:
            # Cancelled or too late: what it may still open must not stay open.
            self._thread.post(close_streams)
            self._renew_thread()
            raise
        self._woken = False
        self._step()
        return self._open

    async def _shut(self) -> None:
        opened, self._open = self._open, None
        if opened is None:
            return
        self._closed_stats = self._count(opened)
        self._woken = False
        try:
            await self._thread.call(opened.close, timeout_s=_CLOSE_TIMEOUT_S)
        except DeviceError as error:
            self._say(str(error))
            self._renew_thread()

    def _renew_thread(self) -> None:
        # The old one may sit in a call that never returns.
        self._thread.stop()
        self._thread = DeviceThread()

    def _step(self) -> None:
        """Move what there is: session to ring, played blocks to the canceller, heard blocks to the session."""
        self._woken = False
        opened, session = self._open, self._session
        if opened is None or session is None:
            return
        self._fill(opened, session)
        for block in opened.playback.take_played():
            opened.chain.played(block)
        if opened.capture is None:
            return
        for block in opened.capture.take(_BLOCKS_A_STEP):
            for frame in opened.chain.heard(block):
                self.heard.add(frame)
                session.push_audio(frame)
        if opened.capture.waiting and not self._woken:
            self._woken = True
            asyncio.get_running_loop().call_soon(self._step)

    def _fill(self, opened: _Open, session: SoundPort) -> None:
        if opened.playback.underruns > opened.underruns_seen:
            opened.underruns_seen = opened.playback.underruns
            self._ring_blocks = min(self._ring_blocks + 1, _LONGEST_RING_MS // BLOCK_MS)
        while opened.playback.queued < self._ring_blocks:
            sound = session.pull_audio(OUTPUT_RATE_HZ * BLOCK_MS // 1000)
            self.spoken.add(sound)
            for block in opened.chain.speaker(sound):
                opened.playback.put(block)

    def _count(self, opened: _Open) -> MicrophoneStats:
        before = self._closed_stats
        return MicrophoneStats(
            underruns=before.underruns + opened.playback.underruns,
            overflows=before.overflows + (opened.capture.overflows if opened.capture is not None else 0),
            reopened=before.reopened,
            capture_ms=round(1000 * opened.capture.latency_s, 1) if opened.capture is not None else 0.0,
            playback_ms=round(1000 * opened.playback.latency_s, 1),
            echo_ms=self._echo.measured_ms,
        )


def _first_usable(wanted: str, direction: Direction, opener: Callable[[Device], _S], said: list[str]) -> _S:
    """Open the wanted device, or else the default one, adding to ``said`` why. Raises DeviceError."""
    try:
        return opener(find_device(wanted, direction))
    except DeviceError as error:
        if not wanted or isinstance(error, NoDeviceError):
            raise
        said.append(f"{error} Using the default one.")
        return opener(find_device("", direction))


def _devices(opened: _Open) -> str:
    speaker = f"speaker {opened.playback.device.name!r}"
    return speaker if opened.capture is None else f"microphone {opened.capture.device.name!r}, {speaker}"
