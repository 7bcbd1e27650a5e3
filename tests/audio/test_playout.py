from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.audio.frames import OUTPUT_FRAME, OUTPUT_RATE_HZ
from app.audio.playout import Playout
from tests.kit.sounds import tone

RAMP = OUTPUT_RATE_HZ // 200


def steady(count, value=1000):
    return np.full(count, value, np.int16)


def speaking(*, seconds=1.0, **options):
    playout = Playout(**options)
    playout.begin(1)
    playout.write(1, tone(440, seconds, OUTPUT_RATE_HZ))
    return playout


@given(st.lists(st.integers(0, 3_000), max_size=15), st.lists(st.integers(1, 2_000), max_size=25))
def test_what_is_read_is_what_was_written_and_each_sample_is_counted_once(writes, reads):
    told = []
    playout = Playout(on_played=lambda generation, samples: told.append((generation, samples)))
    playout.begin(3)
    sound = (np.arange(sum(writes)) % 30_011).astype(np.int16)
    start = 0
    for count in writes:
        assert playout.write(3, sound[start : start + count])
        start += count
    heard = np.concatenate([np.zeros(0, np.int16), *(playout.read(count) for count in reads)])
    expected = min(len(sound), sum(reads))
    assert np.array_equal(heard[:expected], sound[:expected])
    assert not heard[expected:].any()
    assert playout.played_samples == expected == (told[-1][1] if told else 0)
    assert playout.queued_samples == len(sound) - expected


def test_sound_of_an_older_or_later_reply_is_refused():
    playout = speaking()
    assert not playout.write(0, steady(10))
    assert not playout.write(2, steady(10))
    playout.begin(2)
    assert not playout.write(1, steady(10))
    assert playout.queued_samples == 0


def test_flush_says_exactly_how_much_was_heard_and_nothing_of_the_reply_follows_but_a_fade():
    playout = speaking()
    playout.read(OUTPUT_FRAME * 3)
    assert playout.flush() == OUTPUT_FRAME * 3
    assert not playout.write(1, steady(10))
    after = playout.read(OUTPUT_FRAME)
    assert after[:RAMP].any()
    assert not after[RAMP:].any()
    assert not playout.read(OUTPUT_FRAME).any()
    assert playout.played_samples == OUTPUT_FRAME * 3


def test_a_reply_of_which_nothing_was_heard_is_dropped_without_a_sound():
    told = []
    playout = Playout(on_played=lambda *heard: told.append(heard))
    playout.begin(1)
    playout.write(1, steady(5_000))
    assert playout.flush() == 0
    assert not playout.read(OUTPUT_FRAME).any()
    assert told == []


def test_a_cut_makes_no_click():
    playout = speaking()
    before = playout.read(OUTPUT_FRAME)
    playout.flush()
    joined = np.concatenate([before, playout.read(OUTPUT_FRAME)]).astype(np.int32)
    assert np.abs(np.diff(joined)).max() <= 0.4 * 32768 * 2 * np.pi * 440 / OUTPUT_RATE_HZ + 60


def test_a_hold_resumes_at_the_same_sample():
    playout = Playout()
    playout.begin(1)
    sound = (np.arange(4_000) % 30_011).astype(np.int16)
    playout.write(1, sound)
    playout.read(960)
    playout.hold()
    assert not playout.read(960)[240:].any()  # 5 ms without a click, then nothing
    assert not playout.read(960).any()
    assert playout.played_samples == 960
    playout.release()
    resumed = playout.read(960)
    assert np.array_equal(resumed[240:], sound[960 + 240 : 1_920])
    assert resumed[120] == pytest.approx(sound[960 + 120] / 2, rel=0.02)
    assert playout.played_samples == 1_920
    assert playout.underruns == 0


def test_ducking_is_as_deep_as_asked_smooth_and_undone():
    playout = Playout(duck_db=18.0)
    playout.begin(1)
    playout.write(1, steady(OUTPUT_FRAME * 4, 10_000))
    playout.read(OUTPUT_FRAME)
    playout.duck()
    ducked = playout.read(OUTPUT_FRAME)
    assert ducked[-1] == pytest.approx(10_000 * 10 ** (-18 / 20), abs=2)
    assert np.abs(np.diff(ducked.astype(np.int32))).max() < 60
    playout.unduck()
    assert playout.read(OUTPUT_FRAME)[-1] == 10_000


def test_a_new_reply_begins_at_full_loudness_after_a_ducked_one_was_cut():
    playout = Playout()
    playout.begin(1)
    playout.write(1, steady(OUTPUT_FRAME * 3, 10_000))
    playout.read(OUTPUT_FRAME)
    playout.duck()
    playout.read(OUTPUT_FRAME)
    playout.begin(2)
    playout.read(OUTPUT_FRAME)
    playout.write(2, steady(OUTPUT_FRAME, 10_000))
    assert playout.read(OUTPUT_FRAME)[RAMP:].min() == 10_000


def test_running_dry_is_an_underrun_only_in_mid_reply():
    playout = Playout()
    playout.read(OUTPUT_FRAME)
    playout.begin(1)
    playout.read(OUTPUT_FRAME)
    assert playout.underruns == 0
    playout.write(1, steady(OUTPUT_FRAME))
    playout.read(OUTPUT_FRAME)
    playout.read(OUTPUT_FRAME)
    assert playout.underruns == 1
    playout.write(1, steady(OUTPUT_FRAME))
    playout.finish(1)
    playout.read(OUTPUT_FRAME)
    playout.read(OUTPUT_FRAME)
    assert playout.underruns == 1


async def test_a_full_queue_holds_the_producer_until_the_ear_has_heard_or_the_reply_is_cut():
    playout = Playout(capacity_s=0.1)
    playout.begin(1)
    playout.write(1, steady(4_800))
    waiting = asyncio.create_task(playout.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    playout.read(OUTPUT_FRAME)
    await asyncio.wait_for(waiting, 1)
    playout.write(1, steady(4_800))
    waiting = asyncio.create_task(playout.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    playout.flush()
    await asyncio.wait_for(waiting, 1)
