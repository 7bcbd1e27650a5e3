"""From packets to frames in virtual time: gaps, stalls, wraps and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import numpy as np
import pytest

from app.audio.frames import INPUT_FRAME, INPUT_RATE_HZ, OUTPUT_FRAME, OUTPUT_RATE_HZ, Pcm
from app.transports.webrtc.inbound import Inbound
from app.transports.webrtc.opus import SpeechEncoder
from tests.kit.virtual_time import run_virtual


class World:
    """An Inbound with the frames it gave, when it gave them, and packets of a tone to feed it."""

    def __init__(self) -> None:
        self.frames: list[Pcm] = []
        self.times: list[float] = []
        self.failures: list[Exception] = []
        self.inbound = Inbound(self._take, self.failures.append)
        self._encoder = SpeechEncoder()
        self._sent = 0
        self.first_timestamp = 0

    def _take(self, frame: Pcm) -> None:
        self.frames.append(frame.copy())
        self.times.append(asyncio.get_running_loop().time())

    def packet(self) -> tuple[bytes, int]:
        """The next 20 ms of a tone of 440 Hz."""
        time = (self._sent + np.arange(OUTPUT_FRAME)) / OUTPUT_RATE_HZ
        payload = self._encoder.encode((8000 * np.sin(2 * np.pi * 440 * time)).astype(np.int16))
        timestamp = (self.first_timestamp + self._sent) % (1 << 32)
        self._sent += OUTPUT_FRAME
        return payload, timestamp

    async def feed(self, count: int, lost: Callable[[int], bool] = lambda index: False) -> None:
        """``count`` packets at real time, without those that are ``lost``."""
        for index in range(count):
            payload, timestamp = self.packet()
            if not lost(index):
                self.inbound.packet(payload, timestamp)
            await asyncio.sleep(0.02)


def virtually(main: Callable[[], Coroutine[None, None, None]]) -> None:
    run_virtual(main())


def test_every_packet_is_a_frame_at_once() -> None:
    async def main() -> None:
        world = World()
        await world.feed(50)
        world.inbound.stop()
        assert len(world.frames) == 50
        assert all(len(frame) == INPUT_FRAME for frame in world.frames)
        spectrum = np.abs(np.fft.rfft(np.concatenate(world.frames)[-INPUT_RATE_HZ // 2 :]))
        assert spectrum.argmax() * 2 == pytest.approx(440, abs=2)

    virtually(main)


@pytest.mark.parametrize("first", [0, (1 << 32) - 10 * OUTPUT_FRAME], ids=["", "over the wrap of the timestamps"])
def test_what_is_lost_is_filled_in_so_that_time_goes_on(first: int) -> None:
    async def main() -> None:
        world = World()
        world.first_timestamp = first
        await world.feed(100, lost=lambda index: index in (7, 20, 21, 40, 41, 42, 43))
        world.inbound.stop()
        assert len(world.frames) == 100
        assert all(frame.astype(float).std() > 500 for frame in world.frames[1:])

    virtually(main)


def test_a_stalled_network_does_not_stop_the_clock_and_costs_nothing_once_it_is_over() -> None:
    async def main() -> None:
        world = World()
        await world.feed(60, lost=lambda index: 20 <= index < 40)
        world.inbound.stop()
        assert len(world.frames) == pytest.approx(60, abs=1)
        in_the_stall = [at - world.times[0] for at in world.times if 0.42 < at - world.times[0] < 0.79]
        assert len(in_the_stall) >= 13
        assert not world.frames[38].astype(float).std() > 0.2 * world.frames[10].astype(float).std()

    virtually(main)


def test_our_own_standstill_is_not_taken_for_the_networks() -> None:
    async def main() -> None:
        world = World()
        await world.feed(10)
        late = [world.packet() for _ in range(25)]
        asyncio.get_running_loop().now += 0.5  # type: ignore[attr-defined]
        await asyncio.sleep(0)  # the alarm is overdue; the packets have arrived but nobody has read them
        await asyncio.sleep(0)
        for payload, timestamp in late:
            world.inbound.packet(payload, timestamp)
        world.inbound.stop()
        assert len(world.frames) == 35

    virtually(main)


def test_a_new_stream_is_no_gap() -> None:
    async def main() -> None:
        world = World()
        await world.feed(10)
        world.first_timestamp += 40_000
        world.inbound.restart()
        await world.feed(10)
        world.inbound.stop()
        assert len(world.frames) == 20

    virtually(main)


def test_a_laptop_that_slept_is_not_played_its_whole_sleep() -> None:
    async def main() -> None:
        world = World()
        await world.feed(5)
        world.first_timestamp += 3600 * OUTPUT_RATE_HZ
        payload, timestamp = world.packet()
        world.inbound.packet(payload, timestamp)
        world.inbound.stop()
        assert len(world.frames) <= 5 + 50 + 1

    virtually(main)


def test_padding_and_damage_are_no_sound_but_no_end_either() -> None:
    async def main() -> None:
        world = World()
        await world.feed(5)
        world.inbound.packet(b"", 12345)
        damaged = world.packet()
        world.inbound.packet(b"\xff\xff\xff", damaged[1])
        await asyncio.sleep(0.02)
        await world.feed(5)
        world.inbound.stop()
        assert len(world.frames) == 11
        assert not world.failures

    virtually(main)


def test_a_listener_that_fails_is_told_of_once_and_given_nothing_more() -> None:
    async def main() -> None:
        world = World()

        def take(frame: Pcm) -> None:
            raise ValueError("no")

        failing = Inbound(take, world.failures.append)
        for _ in range(5):
            failing.packet(*world.packet())
        await asyncio.sleep(1)
        assert [str(error) for error in world.failures] == ["no"]

    virtually(main)


def test_after_stop_no_timer_is_left() -> None:
    async def main() -> None:
        world = World()
        await world.feed(5)
        world.inbound.stop()
        given = len(world.frames)
        world.inbound.packet(*world.packet())
        await asyncio.sleep(1)
        assert len(world.frames) == given

    virtually(main)
