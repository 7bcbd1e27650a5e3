from __future__ import annotations

import numpy as np
import pytest
import soundfile

from app.audio.wav import read_wav, wav_bytes, write_wav
from app.errors import InvalidRequest
from tests.kit.sounds import level_at, pitch, tone


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "PCM_32", "FLOAT"])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate_hz", [8_000, 22_050, 44_100, 48_000])
def test_every_usual_wav_is_read_as_16_khz_mono(tmp_path, rate_hz, channels, subtype):
    wave = 0.4 * np.sin(2 * np.pi * 1000 * np.arange(rate_hz) / rate_hz)
    soundfile.write(tmp_path / "a.wav", np.stack([wave] * channels, axis=1), rate_hz, subtype=subtype)
    sound = read_wav(tmp_path / "a.wav")
    assert (sound.dtype, sound.shape) == (np.int16, (16_000,))
    assert pitch(sound, 16_000) == pytest.approx(1000, rel=0.001)
    assert level_at(sound[1000:-1000], 16_000, 1000) == pytest.approx(0.4, rel=0.02)


@pytest.mark.parametrize("rate_hz", [16_000, 24_000, 48_000])
def test_what_is_written_is_read_back_to_the_bit(tmp_path, rate_hz):
    sound = np.array([0, 1, -1, 32767, -32768, 1234] * 50, np.int16)
    write_wav(tmp_path / "a.wav", sound, rate_hz)
    assert np.array_equal(read_wav(tmp_path / "a.wav", rate_hz), sound)
    assert np.array_equal(read_wav(wav_bytes(sound, rate_hz), rate_hz), sound)


def test_floats_beyond_full_scale_are_clipped_and_not_wrapped(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.full(100, 1.5), 16_000, subtype="FLOAT")
    assert read_wav(tmp_path / "a.wav").min() == 32767


def test_bad_files_are_refused_by_name(tmp_path):
    with pytest.raises(InvalidRequest, match=r"gone\.wav does not exist"):
        read_wav(tmp_path / "gone.wav")
    with pytest.raises(InvalidRequest, match="does not exist or is not a file"):
        read_wav(tmp_path)
    (tmp_path / "text.wav").write_text("hello, I am no sound")
    with pytest.raises(InvalidRequest, match=r"text\.wav is not a sound file"):
        read_wav(tmp_path / "text.wav")
    (tmp_path / "cut.wav").write_bytes(wav_bytes(tone(500, 0.1))[:30])
    with pytest.raises(InvalidRequest, match=r"cut\.wav"):
        read_wav(tmp_path / "cut.wav")
    write_wav(tmp_path / "empty.wav", np.zeros(0, np.int16), 16_000)
    with pytest.raises(InvalidRequest, match="holds no sound"):
        read_wav(tmp_path / "empty.wav")
    with pytest.raises(InvalidRequest, match="cannot be written"):
        write_wav(tmp_path / "no" / "such" / "a.wav", tone(500, 0.1))
