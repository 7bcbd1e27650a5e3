"""Speech through real Opus packets: pitch, joints, silence, damage and loss."""

from __future__ import annotations

import fractions

import numpy as np
import pytest
from aiortc.codecs.opus import OpusEncoder
from av import AudioFrame

from app.audio.frames import OUTPUT_FRAME, OUTPUT_RATE_HZ, Pcm
from app.transports.webrtc.opus import SpeechDecoder, SpeechEncoder

LOOK_AHEAD = 120
"""Samples by which an encoder of low delay is late: 2.5 ms."""


def voiced(seconds: float, hertz: float = 180.0) -> Pcm:
    """Harmonics under a slow swell: as tonal and as lively as a vowel."""
    time = np.arange(int(seconds * OUTPUT_RATE_HZ)) / OUTPUT_RATE_HZ
    wave = sum(np.sin(2 * np.pi * hertz * k * time) / k for k in range(1, 9))
    return (6000 * wave * (0.7 + 0.3 * np.sin(2 * np.pi * 3 * time))).astype(np.int16)


def frames(pcm: Pcm) -> list[Pcm]:
    return [pcm[start : start + OUTPUT_FRAME] for start in range(0, len(pcm) - OUTPUT_FRAME + 1, OUTPUT_FRAME)]


def packets(pcm: Pcm) -> list[bytes]:
    encoder = SpeechEncoder()
    return [encoder.encode(frame) for frame in frames(pcm)]


def heard(sent: list[bytes]) -> Pcm:
    decoder = SpeechDecoder()
    return np.concatenate([decoder.decode(packet) for packet in sent])


def error_db(pcm: Pcm, original: Pcm) -> float:
    """Signal to noise, dB, once the encoder's look-ahead is taken off."""
    reference = original[: len(pcm) - LOOK_AHEAD].astype(float)
    noise = pcm[LOOK_AHEAD:].astype(float) - reference
    return float(10 * np.log10((reference**2).mean() / (noise**2).mean()))


def test_a_tone_in_chunks_of_20_ms_has_its_pitch_no_jump_and_no_line_at_the_rate_of_the_chunks() -> None:
    tone = (9000 * np.sin(2 * np.pi * 1000 * np.arange(2 * OUTPUT_RATE_HZ) / OUTPUT_RATE_HZ)).astype(np.int16)
    sound = heard(packets(tone))[OUTPUT_RATE_HZ // 2 :][:OUTPUT_RATE_HZ].astype(float)
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))  # 1 Hz a bin
    assert spectrum.argmax() == pytest.approx(1000, rel=0.01)
    assert spectrum[45:56].max() < spectrum[1000] * 1e-3
    steepest = 9000 * 2 * np.pi * 1000 / OUTPUT_RATE_HZ
    assert np.abs(np.diff(sound)).max() < 1.2 * steepest


def test_lasting_silence_is_one_packet_and_speech_after_it_sounds_as_if_it_had_been_encoded_throughout() -> None:
    speech, silence = voiced(0.6), np.zeros(OUTPUT_RATE_HZ, np.int16)
    pcm = np.concatenate([speech, silence, speech])
    sent = packets(pcm)
    quiet = sent[len(frames(speech)) + 20 : len(frames(speech)) + len(frames(silence))]
    assert len(set(quiet)) == 1
    assert len(quiet[0]) <= 4
    sound = heard(sent)
    assert np.abs(sound[int(0.8 * OUTPUT_RATE_HZ) : int(1.6 * OUTPUT_RATE_HZ)]).max() < 32
    again = slice(len(speech) + len(silence), len(pcm))
    alone = error_db(heard(packets(speech)), speech)
    assert error_db(sound[again], pcm[again]) > alone - 1.0


def test_a_stereo_stream_comes_out_as_mono() -> None:
    encoder = OpusEncoder()
    left = voiced(0.4)
    decoder = SpeechDecoder()
    parts = []
    for index, frame in enumerate(frames(left)):
        both = AudioFrame.from_ndarray(np.repeat(frame, 2).reshape(1, -1), format="s16", layout="stereo")
        both.sample_rate, both.pts, both.time_base = OUTPUT_RATE_HZ, index * OUTPUT_FRAME, fractions.Fraction(1, 48_000)
        parts += [decoder.decode(packet) for packet in encoder.encode(both)[0]]
    sound = np.concatenate(parts)
    assert len(sound) == len(frames(left)) * OUTPUT_FRAME
    assert sound.astype(float).std() == pytest.approx(left.astype(float).std(), rel=0.1)


def test_a_damaged_packet_is_no_sound_and_the_next_one_is_heard() -> None:
    sent = packets(voiced(0.2))
    decoder = SpeechDecoder()
    decoder.decode(sent[0])
    assert not len(decoder.decode(b"\xff\xff\xff"))
    assert len(decoder.decode(sent[1])) == OUTPUT_FRAME


def test_a_lost_packet_carries_the_voice_on_and_joins_without_a_click() -> None:
    pcm = voiced(0.6)
    sent = packets(pcm)
    decoder = SpeechDecoder()
    before = [decoder.decode(packet) for packet in sent[:15]]
    made_up = decoder.conceal(OUTPUT_FRAME)
    after = [decoder.decode(packet) for packet in sent[16:]]
    assert len(made_up) == OUTPUT_FRAME
    assert made_up.astype(float).std() > 0.3 * before[-1].astype(float).std()
    sound = np.concatenate([*before, made_up, *after]).astype(int)
    assert np.abs(np.diff(sound)).max() < 1.5 * np.abs(np.diff(pcm.astype(int))).max()


def test_a_long_loss_fades_and_one_before_the_first_packet_is_silence() -> None:
    decoder = SpeechDecoder()
    assert not decoder.conceal(1000).any()
    for packet in packets(voiced(0.4)):
        last = decoder.decode(packet)
    made_up = decoder.conceal(OUTPUT_RATE_HZ + 7)
    assert len(made_up) == OUTPUT_RATE_HZ + 7
    assert made_up[:OUTPUT_FRAME].astype(float).std() > 0.3 * last.astype(float).std()
    assert not made_up[OUTPUT_RATE_HZ // 5 :].any()
