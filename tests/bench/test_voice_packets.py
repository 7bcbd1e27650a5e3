from __future__ import annotations

import numpy as np
import pytest

from app.audio import OUTPUT_FRAME, Pcm
from app.bench.voice.packets import SPEECH_LEVEL, decode, encode, rms_dbfs, room, spoken


def burst(seconds: float, before_s: float = 0.0, after_s: float = 0.0) -> Pcm:
    tone = 8000 * np.sin(np.arange(int(seconds * 48_000)) * 0.06)
    parts = [np.zeros(int(before_s * 48_000)), tone, np.zeros(int(after_s * 48_000))]
    return np.concatenate(parts).astype(np.int16)


@pytest.mark.parametrize(("before_s", "after_s"), [(0.0, 0.0), (0.3, 0.25), (0.013, 0.007)])
def test_first_and_last_packet_of_speech_are_those_in_which_it_is_heard(before_s: float, after_s: float) -> None:
    said = spoken(burst(0.5, before_s, after_s))
    sound = np.concatenate(decode(said.packets)).astype(np.int32)
    loud = np.flatnonzero(np.abs(sound) > 2 * SPEECH_LEVEL)
    assert abs(int(loud[0]) // OUTPUT_FRAME - said.first) <= 1
    assert abs(int(loud[-1]) // OUTPUT_FRAME - said.last) <= 1
    assert said.last < len(said.packets) - 5


def test_a_clip_without_speech_is_refused() -> None:
    with pytest.raises(ValueError, match="no speech"):
        spoken(np.full(48_000, 200, np.int16))


def test_a_room_is_quiet_but_not_dead() -> None:
    levels = rms_dbfs(decode(room()))[5:]
    assert np.all(levels > -85.0)
    assert np.all(levels < -60.0)


def test_every_20_ms_have_a_packet() -> None:
    assert len(encode(np.zeros(48_000, np.int16))) == 50
    assert len(encode(np.zeros(961, np.int16))) == 2


def test_digital_silence_is_told_from_sound_by_the_length_of_its_packets() -> None:
    """What callers go by while a call lasts, when nothing is decoded yet."""
    from app.bench.voice.call import Arrivals
    from app.transports.webrtc.opus import SpeechEncoder

    encoder, arrivals = SpeechEncoder(), Arrivals()
    sound = np.concatenate([np.zeros(OUTPUT_FRAME * 10, np.int16), burst(0.2), np.zeros(OUTPUT_FRAME * 30, np.int16)])
    sounding = []
    for at in range(len(sound) // OUTPUT_FRAME):
        arrivals.add(float(at + 1), at * 960, encoder.encode(sound[at * OUTPUT_FRAME :][:OUTPUT_FRAME]))
        if arrivals.last_sound_s == at + 1:
            sounding.append(at)
    assert sounding[0] in (10, 11)
    assert 18 <= sounding[-1] <= 32, "known within a quarter of a second"
