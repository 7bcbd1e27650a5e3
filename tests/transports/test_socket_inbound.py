"""Sound over TCP in virtual time: any pieces in, a steady clock out, and of what comes late only the newest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

from app.audio.frames import INPUT_FRAME, INPUT_RATE_HZ, Pcm
from app.transports.websocket.inbound import Inbound
from tests.kit.virtual_time import run_virtual

MS = INPUT_RATE_HZ // 1000


class World:
    """Sends samples that count up from 1, so that each one that is heard tells when it was said."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.frames: list[Pcm] = []
        self.failures: list[Exception] = []
        self.inbound = Inbound(self._take, self.failures.append)
        self.said = 0
        self.began = self.loop.time()

    def _take(self, frame: Pcm) -> None:
        assert frame.shape == (INPUT_FRAME,)
        self.frames.append(frame.copy())

    @property
    def heard(self) -> Pcm:
        return np.concatenate(self.frames) if self.frames else np.zeros(0, np.int16)

    @property
    def heard_s(self) -> float:
        return len(self.frames) * 0.02

    def send(self, ms: int) -> None:
        numbers = (np.arange(self.said, self.said + ms * MS) // (10 * MS) % 30_000 + 1).astype("<i2")
        self.said += ms * MS
        self.inbound.push(numbers.tobytes())

    async def talk(self, seconds: float, piece_ms: int = 20) -> None:
        for _ in range(round(seconds * 1000 / piece_ms)):
            await asyncio.sleep(piece_ms / 1000)
            self.send(piece_ms)

    def burst(self, ms: int, piece_ms: int = 20) -> None:
        for _ in range(ms // piece_ms):
            self.send(piece_ms)


def virtual(scenario: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        world = World()
        await scenario(world)
        world.inbound.stop()

    run_virtual(main())


@pytest.mark.parametrize("piece_ms", [1, 7, 20, 33, 100, 250])
def test_pieces_of_any_size_arrive_whole_and_in_order(piece_ms: int) -> None:
    async def scenario(world: World) -> None:
        await world.talk(5.0, piece_ms)
        sound = world.heard[world.heard > 0]
        assert len(sound) > 4.7 * INPUT_RATE_HZ
        assert np.array_equal(sound, (np.arange(len(sound)) // (10 * MS) + 1))
        assert world.inbound.dropped == 0

    virtual(scenario)


def test_before_the_first_sound_there_is_no_clock_and_then_it_never_stops() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(3.0)
        assert world.frames == []
        await world.talk(1.0)
        await asyncio.sleep(10.0)
        assert world.heard_s == pytest.approx(11.0, abs=0.3)
        assert not world.heard[-INPUT_RATE_HZ:].any()

    virtual(scenario)


def test_jitter_below_the_patience_changes_nothing() -> None:
    async def scenario(world: World) -> None:
        await world.talk(0.5)
        for _ in range(10):
            await asyncio.sleep(0.22)
            world.burst(220)
        assert np.all(world.heard > 0)
        assert world.inbound.dropped == 0

    virtual(scenario)


@pytest.mark.parametrize("stall_s", [0.5, 2.0, 8.0])
def test_after_a_stall_only_the_newest_200_ms_of_the_burst_are_heard(stall_s: float) -> None:
    async def scenario(world: World) -> None:
        await world.talk(1.0)
        await asyncio.sleep(stall_s)
        world.burst(int(stall_s * 1000))
        said = world.said
        await world.talk(2.0)
        values = world.heard
        newest = said // (10 * MS)
        late = values[(values > 100) & (values <= newest)]
        assert late[0] > newest - 30, "older words are gone"
        assert len(late) >= 180 * MS, "the newest are kept"
        assert np.all(np.diff(values[values > 0]) >= 0), "in order"
        assert values[-1] >= world.said // (10 * MS) - 3, "no latency is left over"
        assert world.heard_s == pytest.approx(1.0 + stall_s + 2.0, abs=0.5)

    virtual(scenario)


def test_a_burst_that_comes_in_clumps_is_still_one() -> None:
    async def scenario(world: World) -> None:
        await world.talk(1.0)
        await asyncio.sleep(4.0)
        for clump_ms in (100, 200, 400, 800, 1600, 900):
            world.burst(clump_ms)
            await asyncio.sleep(0.05)
        said = world.said
        await world.talk(1.0)
        late = world.heard[(world.heard > 100) & (world.heard <= said // (10 * MS))]
        assert late[0] > said // (10 * MS) - 35

    virtual(scenario)


def test_a_client_that_was_muted_is_heard_from_its_first_word_on() -> None:
    async def scenario(world: World) -> None:
        await world.talk(1.0)
        await asyncio.sleep(6.0)
        before = world.said // (10 * MS)
        await world.talk(2.0)
        assert before + 1 in world.heard
        assert world.inbound.dropped == 0

    virtual(scenario)


def test_a_word_shorter_than_the_hold_is_heard_when_the_client_says_that_it_is_over() -> None:
    async def scenario(world: World) -> None:
        await world.talk(1.0)
        await asyncio.sleep(3.0)
        before = world.said // (10 * MS)
        await world.talk(0.04)
        assert before + 1 not in world.heard
        world.inbound.flush()
        assert before + 1 in world.heard
        world.inbound.flush()

    virtual(scenario)


def test_a_client_faster_than_time_gains_no_more_than_the_bound() -> None:
    async def scenario(world: World) -> None:
        for _ in range(1000):
            await asyncio.sleep(0.01)
            world.send(20)
        assert world.heard_s < 11.5
        assert world.inbound._late_samples <= 300 * MS

    virtual(scenario)


def test_whatever_the_session_raises_ends_it_and_is_told_once() -> None:
    async def main() -> None:
        failures: list[Exception] = []

        def take(frame: Pcm) -> None:
            raise RuntimeError("deaf")

        inbound = Inbound(take, failures.append)
        for _ in range(3):
            inbound.push(bytes(640))
        await asyncio.sleep(1.0)
        assert [str(error) for error in failures] == ["deaf"]

    run_virtual(main())
