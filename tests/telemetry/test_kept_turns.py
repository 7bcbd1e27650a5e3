"""The turns that can be saved: bounded memory, found by their own session's token only."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import TurnNotKept
from app.telemetry.turns import KeptTurns, SavedTurn, Tape
from tests.kit.virtual_time import run_virtual

MIB = 2**20
LOUD_IN, LOUD_OUT = np.full(320, 7, np.int16), np.full(960, 9, np.int16)
QUIET_IN, QUIET_OUT = np.zeros(320, np.int16), np.zeros(960, np.int16)


def nothing() -> Mapping[str, Any]:
    return {}


def new_tape(kept: KeptTurns, token: str = "token") -> Tape:
    tape = kept.tape(token, asyncio.get_running_loop().time)
    assert tape is not None
    return tape


async def frames(tape: Tape, seconds: float, *, loud: bool = True) -> None:
    for _ in range(round(seconds * 50)):
        tape.hear(LOUD_IN if loud else QUIET_IN)
        tape.say(LOUD_OUT if loud else QUIET_OUT)
        await asyncio.sleep(0.02)


async def turn(tape: Tape, name: str, seconds: float, *, loud: bool = True) -> None:
    tape.begin()
    await frames(tape, seconds, loud=loud)
    tape.turn_done(name, nothing, 0)
    tape.idle()


def test_a_turn_has_its_sound_from_before_its_beginning_to_after_its_end() -> None:
    async def main() -> SavedTurn:
        kept = KeptTurns(8)
        tape = new_tape(kept)
        await frames(tape, 30.0)
        await turn(tape, "one", 2.0)
        await frames(tape, 5.0)
        return kept.find("token", "one")

    saved = run_virtual(main())
    assert saved.done_s - saved.began_s == pytest.approx(3.0, abs=0.03)
    assert len(saved.heard().pcm) == pytest.approx(4.0 * 16_000, abs=16_000 * 0.5)
    assert len(saved.said().pcm) == pytest.approx(4.0 * 48_000, abs=48_000 * 0.5)
    assert saved.heard().clock[0] == (0, pytest.approx(saved.began_s, abs=0.021))
    assert saved.missing_s == 0.0


def test_a_session_in_which_nothing_happens_keeps_seconds() -> None:
    async def main() -> int:
        kept = KeptTurns(8)
        tape = new_tape(kept)
        await frames(tape, 60.0)
        return tape.nbytes

    assert run_virtual(main()) < 2.5 * (16_000 + 48_000) * 2


def test_silence_takes_no_memory() -> None:
    async def main() -> int:
        kept = KeptTurns(8)
        tape = new_tape(kept)
        await turn(tape, "quiet", 60.0, loud=False)
        await frames(tape, 2.0, loud=False)
        return kept.nbytes

    assert run_virtual(main()) < 1000


def test_the_oldest_turns_leave_and_say_so() -> None:
    async def main() -> None:
        kept = KeptTurns(2)
        tape = new_tape(kept)
        for number in range(12):
            await turn(tape, f"r{number}", 1.0)
            await frames(tape, 3.0)
        assert kept.find("token", "r11").missing_s == 0.0
        with pytest.raises(TurnNotKept, match=r"no longer kept.*server\.saved_turns_mb \(2\)"):
            kept.find("token", "r0")
        with pytest.raises(TurnNotKept, match="no such turn"):
            kept.find("token", "r99")
        assert kept.nbytes <= 2 * MIB

    run_virtual(main())


def test_of_a_long_turn_the_end_is_kept() -> None:
    async def main() -> SavedTurn:
        kept = KeptTurns(8)
        tape = new_tape(kept)
        await turn(tape, "long", 60.0)
        return kept.find("token", "long")

    saved = run_virtual(main())
    assert saved.nbytes <= 2 * MIB + 150_000
    assert saved.missing_s > 40.0
    assert saved.done_s - saved.began_s > 10.0


def test_a_token_opens_the_turns_of_its_own_session_only() -> None:
    async def main() -> None:
        kept = KeptTurns(8)
        await turn(new_tape(kept, "mine"), "item_2", 1.0)
        await turn(new_tape(kept, "yours"), "item_4", 1.0)
        assert kept.find("mine", "item_2").response_id == "item_2"
        for token, name in (("yours", "item_2"), ("mine", "item_4"), ("", "item_2"), ("item_2", "mine")):
            with pytest.raises(TurnNotKept, match="no such turn"):
                kept.find(token, name)

    run_virtual(main())


def test_turns_outlive_their_session_for_a_while() -> None:
    async def main() -> None:
        kept = KeptTurns(8, keep_s=100.0)
        tape = new_tape(kept)
        await turn(tape, "last", 1.0)
        tape.close()
        assert tape.nbytes == 0
        await asyncio.sleep(99.0)
        assert len(kept.find("token", "last").heard().pcm)
        await asyncio.sleep(5.0)
        assert kept.nbytes == 0
        with pytest.raises(TurnNotKept, match="no longer kept"):
            kept.find("token", "last")

    run_virtual(main())


def test_none_are_kept_where_there_is_no_memory_for_them() -> None:
    kept = KeptTurns(0)
    assert kept.tape("token", lambda: 0.0) is None
    with pytest.raises(TurnNotKept, match=r"server\.saved_turns_mb = 0"):
        kept.find("token", "any")


def test_what_a_turn_holds_does_not_change_any_more() -> None:
    async def main() -> None:
        kept = KeptTurns(8)
        tape = new_tape(kept)
        await turn(tape, "one", 1.1)
        saved = kept.find("token", "one")
        before = saved.heard().pcm
        await frames(tape, 3.0)
        assert np.array_equal(saved.heard().pcm, before)

    run_virtual(main())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 6))
def test_memory_is_bounded_whatever_many_sessions_do(seed: int, limit_mb: int, sessions: int) -> None:
    draw = random.Random(seed)

    async def main() -> None:
        kept = KeptTurns(limit_mb)
        tapes = [new_tape(kept, str(number)) for number in range(sessions)]
        for number in range(150):
            tape = draw.choice(tapes)
            match draw.randrange(9):
                case 0:
                    tape.begin()
                case 1:
                    tape.turn_done(f"r{number}", nothing, draw.randrange(50_000))
                case 2:
                    tape.idle()
                case 3:
                    tape.note("client", {"type": "x", "text": "y" * draw.randrange(100_000)})
                case 4:
                    call = tape.call("tts", {"text": "hello"})
                    tape.answer(call, np.ones(draw.randrange(200_000), np.int16))
                case 5:
                    tape.begin(asyncio.get_running_loop().time() - 2.0, goes_on=draw.random() < 0.5)
                case _:
                    await frames(tape, draw.random() * 2, loud=draw.random() < 0.8)
            assert kept.nbytes <= limit_mb * MIB
            assert all(tape.nbytes >= 0 for tape in tapes)
        for tape in tapes:
            tape.close()
        await asyncio.sleep(2000.0)
        assert kept.nbytes == 0

    run_virtual(main())


def test_what_comes_after_a_session_has_ended_takes_no_memory() -> None:
    async def main() -> None:
        kept = KeptTurns(8)
        tape = new_tape(kept)
        tape.begin()
        running = tape.call("tts", {"text": "hello"})
        tape.close()
        tape.answer(running, np.ones(48_000, np.int16))
        tape.answer(tape.call("tts", {"text": "more"}), np.ones(48_000, np.int16))
        tape.note("client", {"type": "response.cancel"})
        await frames(tape, 1.0)
        assert (tape.nbytes, kept.nbytes) == (0, 0)

    run_virtual(main())


def test_sound_after_a_gap_has_its_own_time() -> None:
    async def main() -> SavedTurn:
        kept = KeptTurns(8)
        tape = new_tape(kept)
        tape.begin()
        await frames(tape, 0.7)
        await asyncio.sleep(30.0)
        await frames(tape, 0.7)
        tape.turn_done("one", nothing, 0)
        return kept.find("token", "one")

    sound = run_virtual(main()).heard()
    assert len(sound.pcm) == 2 * 35 * 320
    assert [sample for sample, _ in sound.clock] == [0, 8000, 11_200, 19_200]
    assert sound.clock[2][1] - sound.clock[0][1] == pytest.approx(30.7)
