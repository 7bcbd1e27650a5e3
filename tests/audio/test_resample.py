from __future__ import annotations

import numpy as np
import pytest

from app.audio.resample import Resampler, downmix, resample
from app.errors import InvalidRequest
from tests.kit.sounds import level_at, pitch, tone

RATES = (8_000, 16_000, 22_050, 24_000, 44_100, 48_000)


def streamed(sound, from_hz, to_hz, chunk_ms=20):
    stream = Resampler(from_hz, to_hz)
    chunk = from_hz * chunk_ms // 1000
    out = [stream.process(sound[start : start + chunk]) for start in range(0, len(sound), chunk)]
    return np.concatenate([*out, stream.flush()])


@pytest.mark.parametrize("to_hz", [16_000, 48_000])
@pytest.mark.parametrize("from_hz", RATES)
@pytest.mark.parametrize("channels", [1, 2])
def test_a_tone_keeps_its_pitch_and_its_level(from_hz, to_hz, channels):
    interleaved = np.repeat(tone(1000, 1.0, from_hz), channels)[None, :]
    out = streamed(downmix(interleaved, channels), from_hz, to_hz)[1000:-1000]
    assert pitch(out, to_hz) == pytest.approx(1000, rel=0.01)
    assert level_at(out, to_hz, 1000) == pytest.approx(0.4, rel=0.02)


@pytest.mark.parametrize("to_hz", [16_000, 48_000])
@pytest.mark.parametrize("from_hz", RATES)
def test_chunk_borders_leave_no_jump_and_no_line_at_the_frame_rate(from_hz, to_hz):
    out = streamed(tone(1000, 2.0, from_hz), from_hz, to_hz)[to_hz // 10 : -to_hz // 10]
    steepest = 0.4 * 32768 * 2 * np.pi * 1000 / to_hz
    assert np.abs(np.diff(out.astype(np.int32))).max() <= steepest + 3
    assert max(level_at(out, to_hz, hz) for hz in (50, 100, 150, 950, 1050)) < 10 ** (-80 / 20)


@pytest.mark.parametrize("to_hz", [16_000, 48_000])
@pytest.mark.parametrize("from_hz", RATES)
def test_the_way_of_chunking_changes_no_sample_beyond_its_rounding(from_hz, to_hz):
    sound = np.random.default_rng(1).integers(-9000, 9000, from_hz // 4).astype(np.int16)
    whole = streamed(sound, from_hz, to_hz, chunk_ms=1000).astype(int)
    for chunk_ms in (20, 7):
        chunked = streamed(sound, from_hz, to_hz, chunk_ms=chunk_ms).astype(int)
        assert len(chunked) == len(whole)
        assert np.abs(chunked - whole).max() <= 1
        assert np.mean(chunked != whole) < 1e-3


@pytest.mark.parametrize("from_hz", RATES)
def test_every_20_ms_give_20_ms_at_once(from_hz):
    stream = Resampler(from_hz, 16_000)
    assert [len(stream.process(np.zeros(from_hz // 50, np.int16))) for _ in range(5)] == [320] * 5
    assert stream.delay_samples <= 48


def test_what_16_khz_cannot_hold_is_removed_instead_of_folded_back():
    assert np.abs(resample(tone(9_000, 0.5, 48_000), 48_000, 16_000)[300:-300]).max() <= 4


def test_a_whole_sound_keeps_its_place_and_length():
    click = np.zeros(4_800, np.int16)
    click[2_400] = 20_000
    out = resample(click, 48_000, 16_000)
    assert len(out) == 1_600
    assert int(np.abs(out).argmax()) == 800


def test_a_loud_sound_is_clipped_and_not_wrapped():
    square = np.where(tone(200, 0.2, 24_000) >= 0, 32767, -32768).astype(np.int16)
    out = resample(square, 24_000, 48_000)
    assert np.abs(np.diff(out[100:-100].astype(np.int32))).max() < 60_000


def test_after_flush_the_next_stream_begins_clean():
    stream = Resampler(8_000, 16_000)
    stream.process(tone(500, 0.1, 8_000))
    stream.flush()
    assert not stream.process(np.zeros(800, np.int16)).any()


@pytest.mark.parametrize("shape", ["packed", "planar", "pairs"])
def test_stereo_is_averaged_in_every_layout(shape):
    left, right = np.array([100, 30_000, -5], np.int16), np.array([300, 30_000, -7], np.int16)
    planar = np.stack([left, right])
    samples = {"packed": planar.T.reshape(1, -1), "planar": planar, "pairs": planar.T}[shape]
    assert downmix(samples, 2).tolist() == [200, 30_000, -6]


def test_wrong_rates_and_torn_stereo_are_refused():
    with pytest.raises(InvalidRequest, match="sample rate 0 Hz"):
        Resampler(0, 16_000)
    with pytest.raises(InvalidRequest, match="3 samples"):
        downmix(np.zeros(3, np.int16), 2)
