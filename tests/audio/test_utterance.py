from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.audio.utterance import UtteranceRecorder


def counting(start, count):
    return (np.arange(start, start + count) % 30_011).astype(np.int16)


def feed(recorder, seconds):
    for _ in range(int(seconds * 50)):
        recorder.push(counting(recorder.position, 320))


def test_an_utterance_comes_with_all_of_its_pre_roll():
    recorder = UtteranceRecorder(pre_roll_ms=400, max_utterance_s=120)
    feed(recorder, 5)
    began = recorder.position - 8_000
    recorder.hold(began)
    feed(recorder, 3)
    sound = recorder.utterance(began)
    assert np.array_equal(sound, counting(began - 6_400, 6_400 + 8_000 + 48_000))


def test_a_monologue_of_90_s_keeps_every_sample():
    recorder = UtteranceRecorder(pre_roll_ms=400, max_utterance_s=120)
    feed(recorder, 2)
    recorder.hold(32_000)
    feed(recorder, 90)
    assert np.array_equal(recorder.utterance(32_000), counting(25_600, 6_400 + 90 * 16_000))


def test_beyond_the_longest_utterance_the_oldest_sound_goes():
    recorder = UtteranceRecorder(pre_roll_ms=400, max_utterance_s=4)
    recorder.hold(0)
    feed(recorder, 20)
    kept = recorder.position - recorder.earliest
    assert 4 * 16_000 <= kept < 6 * 16_000
    assert len(recorder.slice(0)) == kept


def test_positions_outside_what_is_kept_are_left_out():
    recorder = UtteranceRecorder(pre_roll_ms=400, max_utterance_s=4)
    assert len(recorder.slice(0)) == 0
    feed(recorder, 0.1)
    assert len(recorder.slice(-500, 10**9)) == 1_600
    assert len(recorder.slice(1_000, 900)) == 0


@given(st.lists(st.tuples(st.integers(1, 9_000), st.sampled_from(["", "hold", "release"])), max_size=30))
def test_a_slice_is_always_the_stream_itself(steps):
    recorder = UtteranceRecorder(pre_roll_ms=300, max_utterance_s=2)
    for count, action in steps:
        recorder.push(counting(recorder.position, count))
        if action == "hold":
            recorder.hold(recorder.position)
        elif action == "release":
            recorder.release()
        start = max(recorder.earliest, recorder.position - 5_000)
        assert np.array_equal(recorder.slice(start), counting(start, recorder.position - start))
        assert recorder.position - recorder.earliest >= min(recorder.position, 16_000 + 4_800)


def test_an_idle_session_holds_little_and_gives_back_what_it_recorded():
    tracemalloc.start()
    try:
        recorder = UtteranceRecorder(pre_roll_ms=400, max_utterance_s=120)
        feed(recorder, 60)
        assert tracemalloc.get_traced_memory()[0] < 100_000
        recorder.hold(recorder.position)
        feed(recorder, 60)
        assert tracemalloc.get_traced_memory()[0] > 1_900_000
        recorder.release()
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
