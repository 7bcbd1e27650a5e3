from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.audio.framer import Framer


@given(st.lists(st.integers(0, 1_500), max_size=20))
def test_frames_are_the_stream_whatever_the_chunks(lengths):
    sound = np.arange(sum(lengths)).astype(np.int16)
    framer, frames, start = Framer(), [], 0
    for length in lengths:
        frames += framer.push(sound[start : start + length])
        start += length
    assert all(len(frame) == 320 for frame in frames)
    joined = np.concatenate([*frames, np.zeros(0, np.int16)])
    assert len(sound) - len(joined) < 320
    assert np.array_equal(joined, sound[: len(joined)])


def test_flush_fills_the_last_frame_with_silence_once():
    framer = Framer()
    assert next(iter(framer.push(np.ones(330, np.int16)))).sum() == 320
    last = framer.flush()
    assert last is not None
    assert len(last) == 320
    assert last.sum() == 10
    assert framer.flush() is None


def test_what_is_held_back_does_not_change_with_the_callers_buffer():
    framer, buffer = Framer(), np.ones(100, np.int16)
    list(framer.push(buffer))
    buffer[:] = 7
    last = framer.flush()
    assert last is not None
    assert last.max() == 1
