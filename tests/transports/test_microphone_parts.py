"""The microphone's pure parts: formats and errors of devices, the sound's chain, ways to deal with echo."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from app.audio.frames import INPUT_FRAME
from app.transports.microphone.chain import Chain
from app.transports.microphone.devices import Device, explain, portaudio
from app.transports.microphone.echo import ECHO_BLOCK, Canceller, HalfDuplex, Headphones, choose_echo_control
from app.transports.microphone.streams import CaptureStream, PlaybackStream

_CARD = Device(7, "USB mic", inputs=2, outputs=2, rate_hz=44_100, default_input=True, default_output=True)
_LOUD = np.full(ECHO_BLOCK, 5000, np.int16)


def test_half_duplex_is_deaf_while_it_speaks_and_a_little_longer_and_then_hears_again() -> None:
    echo = HalfDuplex("test")
    echo.set_delay(100)
    assert echo.heard(_LOUD).any()
    echo.played(_LOUD)
    assert [echo.heard(_LOUD).any() for _ in range(36)] == [False] * 35 + [True]


def test_silence_played_does_not_make_half_duplex_deaf() -> None:
    echo = HalfDuplex("test")
    echo.played(np.zeros(ECHO_BLOCK, np.int16))
    assert echo.heard(_LOUD).any()


def test_half_duplex_is_chosen_only_where_cancelling_is_wanted_and_cannot_be_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert isinstance(choose_echo_control(True), Canceller)
    assert isinstance(choose_echo_control(False), Headphones)
    monkeypatch.setitem(sys.modules, "livekit", None)
    chosen = choose_echo_control(True)
    assert isinstance(chosen, HalfDuplex)
    assert "pip install livekit" in chosen.description
    assert isinstance(choose_echo_control(False), Headphones)


@pytest.mark.parametrize("rate_hz", [44_100, 48_000, 16_000])
def test_the_chain_keeps_pace_and_pitch_at_any_device_rate(rate_hz: int) -> None:
    block = rate_hz // 100
    chain = Chain(Headphones(), capture_hz=rate_hz, playback_hz=rate_hz, playback_block=block)
    sound = (8000 * np.sin(2 * np.pi * 500 * np.arange(rate_hz) / rate_hz)).astype(np.int16)
    frames = [frame for at in range(0, rate_hz, block) for frame in chain.heard(sound[at : at + block])]
    heard = np.concatenate(frames)
    assert all(frame.shape == (INPUT_FRAME,) for frame in frames)
    assert 16_000 - 2 * INPUT_FRAME <= len(heard) <= 16_000
    assert np.argmax(np.abs(np.fft.rfft(heard))) * 16_000 / len(heard) == pytest.approx(500, abs=2)
    spoken = [part for _ in range(100) for part in chain.speaker(_LOUD)]
    assert all(part.shape == (block,) for part in spoken)
    assert len(spoken) in (99, 100)


class _Refusing:
    """PortAudio's stream class of a card that takes only ``rate_hz`` in stereo."""

    def __init__(self, rate_hz: int, channels: int) -> None:
        self.asked: list[tuple[int, int]] = []
        self._accepted = (rate_hz, channels)
        self.latency = 0.02

    def __call__(self, *, samplerate: int, channels: int, **_: object) -> _Refusing:
        self.asked.append((samplerate, channels))
        if (samplerate, channels) != self._accepted:
            raise portaudio().PortAudioError("Invalid sample rate", -9997)
        return self


def test_a_refused_rate_or_channel_count_falls_back_to_what_the_card_does_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stereo = _Refusing(44_100, 2)
    monkeypatch.setattr(portaudio(), "RawInputStream", stereo)
    monkeypatch.setattr(portaudio(), "RawOutputStream", stereo)
    capture = CaptureStream(_CARD, lambda: None)
    assert (capture.format.rate_hz, capture.format.channels, capture.format.block) == (44_100, 2, 441)
    assert stereo.asked == [(48_000, 1), (48_000, 2), (44_100, 1), (44_100, 2)]
    assert PlaybackStream(_CARD, lambda: None).format.channels == 2


@pytest.mark.parametrize(
    ("code", "words"), [(-9997, "sample rate"), (-9996, "no longer there"), (-9985, "in use"), (-9999, "sound server")]
)
def test_portaudios_errors_name_the_device_and_the_remedy(code: int, words: str) -> None:
    text = explain(portaudio().PortAudioError("Some words", code), _CARD, "input")
    assert "microphone 'USB mic'" in text
    assert words in text
    assert "--list-devices" in text
