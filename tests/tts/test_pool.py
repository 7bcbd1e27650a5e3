"""One pool for all blocking voices: order, bounds, cancelling, failing, closing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing

import numpy as np
import pytest

from app.audio.frames import Pcm
from app.errors import ModelError, Overloaded, StageError, StageTimeout, StageUnavailable
from app.tts.pool import VoicePool, pause_ms, to_pcm, trim_silence

CHUNK = np.ones(10, np.int16)


class Voice:
    """Speaks two chunks a clause; stops between them until ``go`` is set."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.manners: list[tuple[str, float]] = []
        self.fails: Exception | None = None

    def __call__(self, text: str, voice: str, speed: float) -> Iterator[Pcm]:
        self.begun.append(text)
        self.manners.append((voice, speed))
        if self.fails:
            raise self.fails
        yield CHUNK
        self.go.wait(5)
        yield CHUNK
        self.ended.append(text)


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never happened")


async def collect(pool: VoicePool, text: str, slack_s: float = 0.0) -> int:
    return sum([len(chunk) async for chunk in pool.stream(text, slack_s=slack_s)])


async def test_clauses_that_are_equally_urgent_are_spoken_in_the_order_in_which_they_came() -> None:
    voice = Voice()
    voice.go.set()
    pool = VoicePool("v", voice, threads=1, max_waiting=9)
    assert await asyncio.gather(*(collect(pool, f"clause {i}") for i in range(5))) == [20] * 5
    assert voice.begun == [f"clause {i}" for i in range(5)]
    await pool.close()


async def test_a_clause_that_will_be_missed_sooner_is_spoken_sooner() -> None:
    voice = Voice()
    pool = VoicePool("v", voice, threads=1, max_waiting=9)
    running = asyncio.create_task(collect(pool, "in hand"))
    await until(lambda: voice.begun)
    waiting = [
        asyncio.create_task(collect(pool, text, slack_s))
        for text, slack_s in (("much queued", 8.0), ("little queued", 2.0), ("first", 0.0), ("also first", 0.0))
    ]
    await asyncio.sleep(0.01)
    voice.go.set()
    await asyncio.gather(running, *waiting)
    assert voice.begun == ["in hand", "first", "also first", "little queued", "much queued"]
    await pool.close()


async def test_a_clause_that_has_waited_out_its_slack_is_not_overtaken_by_newcomers() -> None:
    voice = Voice()
    pool = VoicePool("v", voice, threads=1, max_waiting=9)
    running = asyncio.create_task(collect(pool, "in hand"))
    await until(lambda: voice.begun)
    patient = asyncio.create_task(collect(pool, "patient", 0.05))
    await asyncio.sleep(0.1)
    newcomers = [asyncio.create_task(collect(pool, f"newcomer {i}")) for i in range(3)]
    await asyncio.sleep(0.01)
    voice.go.set()
    await asyncio.gather(running, patient, *newcomers)
    assert voice.begun[1] == "patient"
    await pool.close()


async def test_a_clause_is_spoken_in_the_voice_and_at_the_speed_that_were_asked_for() -> None:
    voice = Voice()
    voice.go.set()
    pool = VoicePool("v", voice, threads=1, max_waiting=9)
    for name, speed in (("emma", 1.3), ("heart", 0.7)):
        async for _ in pool.stream("one", name, speed):
            pass
    assert voice.manners == [("emma", 1.3), ("heart", 0.7)]
    await pool.close()


async def test_two_threads_take_the_two_most_urgent_clauses() -> None:
    voice = Voice()
    pool = VoicePool("v", voice, threads=2, max_waiting=9)
    running = [asyncio.create_task(collect(pool, f"in hand {i}")) for i in range(2)]
    await until(lambda: len(voice.begun) == 2)
    waiting = [asyncio.create_task(collect(pool, f"{slack_s}", slack_s)) for slack_s in (9.0, 1.0, 5.0)]
    await asyncio.sleep(0.01)
    voice.go.set()
    await asyncio.gather(*running, *waiting)
    assert set(voice.begun[2:4]) == {"1.0", "5.0"}
    assert voice.begun[4] == "9.0"
    await pool.close()


async def test_the_first_chunk_arrives_before_the_second_is_made() -> None:
    voice = Voice()
    pool = VoicePool("v", voice, threads=1, max_waiting=9)
    async with aclosing(pool.stream("one")) as chunks:
        assert len(await anext(chunks)) == 10
        assert voice.ended == []
        voice.go.set()
    await pool.close()


async def test_more_than_may_wait_is_refused_and_the_place_is_free_again_later() -> None:
    voice = Voice()
    pool = VoicePool("v", voice, threads=1, max_waiting=1)
    first, second = asyncio.create_task(collect(pool, "a")), asyncio.create_task(collect(pool, "b"))
    await until(lambda: voice.begun)
    with pytest.raises(Overloaded, match=r"tts\.max_waiting"):
        await collect(pool, "c")
    voice.go.set()
    assert await asyncio.gather(first, second) == [20, 20]
    assert await collect(pool, "d") == 20
    await pool.close()


async def test_closing_the_stream_stops_the_work_between_two_chunks() -> None:
    voice = Voice()
    pool = VoicePool("v", voice, threads=1, max_waiting=9)
    async with aclosing(pool.stream("cut off")) as chunks:
        await anext(chunks)
    voice.go.set()
    await pool.close()
    assert voice.ended == []


async def test_a_clause_cancelled_while_it_waits_is_never_begun() -> None:
    voice = Voice()
    pool = VoicePool("v", voice, threads=1, max_waiting=9)
    running = asyncio.create_task(collect(pool, "a"))
    await until(lambda: voice.begun)
    waiting = asyncio.create_task(collect(pool, "b"))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    voice.go.set()
    assert await running == 20
    await pool.close()
    assert voice.begun == ["a"]


async def test_a_voice_that_makes_no_sound_in_time_is_a_timeout_that_names_the_key() -> None:
    voice = Voice()
    pool = VoicePool("v", voice, threads=1, max_waiting=9)
    with pytest.raises(StageTimeout, match=r"tts\.timeout_s"):
        async for _ in pool.stream("slow", timeout_s=0.05):
            pass
    voice.go.set()
    await pool.close()


async def test_a_failure_of_the_voice_is_a_stage_error_and_the_next_clause_is_spoken() -> None:
    voice = Voice()
    voice.go.set()
    pool = VoicePool("v", voice, threads=1, max_waiting=9)
    voice.fails = ValueError("no such phoneme")
    with pytest.raises(StageError, match="no such phoneme"):
        await collect(pool, "a")
    voice.fails = ModelError("gone")
    with pytest.raises(ModelError):
        await collect(pool, "b")
    voice.fails = None
    assert await collect(pool, "c") == 20
    await pool.close()


async def test_closing_the_pool_wakes_those_who_wait_and_leaves_no_thread() -> None:
    voice = Voice()
    pool = VoicePool("closing-voice", voice, threads=1, max_waiting=9)
    running = asyncio.create_task(collect(pool, "a"))
    await until(lambda: voice.begun)
    waiting = asyncio.create_task(collect(pool, "b"))
    await asyncio.sleep(0.01)
    closing = asyncio.create_task(pool.close())
    with pytest.raises(StageUnavailable):
        await waiting
    voice.go.set()
    await closing
    await running
    with pytest.raises(StageUnavailable):
        await collect(pool, "c")
    await until(lambda: not any("closing-voice" in thread.name for thread in threading.enumerate()))


def test_sound_louder_than_full_scale_is_turned_down_not_clipped() -> None:
    wave = 1.7 * np.sin(np.linspace(0, 60, 4000)).astype(np.float32)
    pcm = to_pcm(wave)
    assert np.abs(pcm.astype(int)).max() in (32766, 32767)
    assert np.corrcoef(pcm, wave)[0, 1] > 0.9999
    assert np.abs(to_pcm(wave * 0.1).astype(int)).max() < 6000


def test_silence_around_speech_is_cut_to_a_breath() -> None:
    speech = np.full(1000, 9000, np.int16)
    sound = np.concatenate([np.zeros(8000, np.int16), speech, np.zeros(8000, np.int16)])
    assert len(trim_silence(sound, 16_000, lead_ms=10, tail_ms=100)) == 160 + 1000 + 1600
    assert not len(trim_silence(np.zeros(500, np.int16), 16_000))
    assert not len(trim_silence(np.zeros(0, np.int16), 16_000))


def test_a_speaker_rests_longest_after_a_sentence() -> None:
    assert pause_ms("Yes.") == pause_ms('He said "no!"') == pause_ms("好。") > pause_ms("Yes,") > pause_ms("Yes and")
