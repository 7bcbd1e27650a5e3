from __future__ import annotations

import sys

import numpy as np
import pytest

from app.audio.echo import EchoGuard
from app.audio.resample import resample
from app.audio.vad import SpeechLikely, SpeechStarted, VoiceActivity, load_vad
from app.config.settings import VadSettings
from tests.kit.listening import plain
from tests.kit.speech import say, say_piper, sounding

SETTINGS = VadSettings()  # type: ignore[call-arg]
REPLIES = (
    "The sky looks blue because air scatters short waves of light more than long ones.",
    "Sure, I can help with that. First open the settings, then look for the network section.",
    "Paris is the capital of France. It lies on the river Seine.",
    "There are three options. The first one is cheap, and the second one is quick.",
    "I am sorry to hear that. Maybe a short walk will help you feel better.",
    "Your meeting is on Thursday at half past three in the large room.",
    "Cook it for nine minutes, keep some of the water, and mix it with the sauce.",
    "Once upon a time there was a fox who lived at the edge of a forest.",
    "The train leaves at seven fifteen from platform four.",
    "It happens in the leaves of plants.",
)


@pytest.fixture(scope="module")
def model():
    return load_vad(SETTINGS)[0]


def assistant(texts, lead_s=0.6, gap_s=1.2):
    """Replies with pauses, int16 at 48 kHz in whole frames, and the same at 16 kHz; where each begins, 16 kHz."""
    parts, starts = [np.zeros(int(lead_s * 16_000), np.int16)], []
    for text in texts:
        starts.append(sum(map(len, parts)))
        parts += [say(text), np.zeros(int(gap_s * 16_000), np.int16)]
    low = np.concatenate(parts)
    low = low[: len(low) // 320 * 320]
    return resample(low, 16_000, 48_000), low, starts


def echo_of(sound, delay_ms, level_db, seed=0):
    """What a small room makes of it: a direct path and 250 ms of reverberation 3 dB below, band-limited."""
    random = np.random.default_rng(seed)
    time = np.arange(6_400) / 16_000
    room = random.normal(0, 1, len(time)) * 10 ** (-3 * time / 0.25)
    room[:40] = 0
    room *= 10 ** (-3 / 20) / np.sqrt((room**2).sum())
    room[0] = 1
    size = len(sound) + len(room)
    spectrum = np.fft.rfft(sound, size) * np.fft.rfft(room, size)
    hz = np.fft.rfftfreq(size, 1 / 16_000)
    spectrum *= (hz > 200) & (hz < 6_000)
    wet = np.fft.irfft(spectrum, size)[: len(sound)]
    wet *= np.sqrt((sound.astype(float) ** 2).mean() / (wet**2).mean()) * 10 ** (level_db / 20)
    return np.concatenate([np.zeros(delay_ms * 16), wet])[: len(sound)]


def heard(wave, hiss=3):
    noisy = wave + np.random.default_rng(1).normal(0, hiss, len(wave))
    return np.clip(noisy, -32_768, 32_767).astype(np.int16)


def call(model, far, near, order=None):
    """Both sides through the guard; the events, with the samples heard by then, and what was let through."""
    guard, activity = EchoGuard(), VoiceActivity(model, SETTINGS)
    played = iter(far.reshape(-1, 960))
    arriving = iter(near[: len(near) // 320 * 320].reshape(-1, 320))
    events, passed = [], []
    for side in order or "pc" * (len(near) // 320):
        if side == "p":
            if (sound := next(played, None)) is not None:
                guard.played(sound)
        elif (frame := next(arriving, None)) is not None:
            passed.append(guard.clean(frame))
            events += [(len(passed) * 320, event) for event in activity.push(passed[-1])]
    return events, np.concatenate(passed)


def started(events):
    return [event for _, event in events if isinstance(event, SpeechStarted)]


@pytest.mark.parametrize(("delay_ms", "level_db"), [(80, -20), (200, -20), (120, -10), (400, -20), (60, -30)])
def test_the_echo_of_ten_replies_is_never_speech(model, delay_ms, level_db):
    far, low, _ = assistant(REPLIES)
    near = heard(echo_of(low, delay_ms, level_db))
    assert started(call(model, far, near)[0]) == []


def test_without_the_guard_each_of_them_would_be(model):
    """The tests above can fail."""
    _, low, _ = assistant(REPLIES[:3])
    near = heard(echo_of(low, 120, -20))
    assert len(started(call(model, np.zeros(len(low) * 3, np.int16), near)[0])) >= 3


def test_frames_that_come_out_of_step_or_in_bursts_do_not_let_the_echo_through(model):
    far, low, _ = assistant(REPLIES)
    frames = len(low) // 320
    random = np.random.default_rng(3)
    order = ""
    while order.count("c") < frames:
        order += random.choice(["pc", "cp", "ppcc", "pppccc"], p=[0.8, 0.08, 0.08, 0.04])
        if random.random() < 0.002:
            order += "p" * 10 + "c" * 10  # half the stalls of a very busy machine
    assert len(started(call(model, far, heard(echo_of(low, 150, -20)), order)[0])) == 0


@pytest.mark.parametrize("level_db", [None, -20], ids=["headphones", "echo"])
@pytest.mark.parametrize("quieter_db", [0, 6])
@pytest.mark.parametrize(
    ("text", "words"), [("Stop.", ("stop",)), ("Wait, what about Tuesday?", ("wait", "tuesday"))], ids=["stop", "wait"]
)
def test_a_user_who_speaks_over_the_assistant_is_noticed_and_understood(model, ear, level_db, quieter_db, text, words):
    far, low, starts = assistant([REPLIES[9], REPLIES[1]])
    near = np.zeros(len(low)) if level_db is None else echo_of(low, 120, level_db)
    spoken = say_piper(text)
    first, last = sounding(spoken)
    spoken = spoken[first:last] * (
        np.sqrt(np.mean(low[low != 0].astype(float) ** 2) / np.mean(spoken[first:last].astype(float) ** 2))
        / 10 ** (quieter_db / 20)
    )
    at = starts[1] + int(1.8 * 16_000)
    near[at : at + len(spoken)] += spoken
    events, passed = call(model, far, heard(near))
    kinds = [(type(event), told - at) for told, event in events if told > at]
    assert not started([(told, event) for told, event in events if told <= at])
    assert kinds[0][0] is SpeechLikely
    assert 0 < kinds[0][1] <= 0.2 * 16_000
    assert kinds[1][0] is SpeechStarted
    assert 0 < kinds[1][1] <= 0.28 * 16_000
    text_heard = plain(ear.hear(passed[at - 6_400 : at + len(spoken) + 4_800], 16_000))
    # What the canceller takes away with the echo costs words now and then; the first decides whether it stops.
    understood = words if level_db is None else words[:1]
    assert all(word in text_heard for word in understood), text_heard


def test_while_the_assistant_is_silent_sound_passes_as_it_is():
    guard = EchoGuard()
    spoken = say("What time is it?")
    far, _, _ = assistant(["Yes."])
    for sound in far.reshape(-1, 960):
        guard.played(sound)
        guard.clean(np.zeros(320, np.int16))
    assert not guard.active
    for start in range(0, len(spoken) - 319, 320):
        guard.played(np.zeros(960, np.int16))
        frame = spoken[start : start + 320]
        assert guard.clean(frame) is frame


def test_a_user_whose_side_stalls_keeps_no_more_than_a_second_of_the_assistant():
    guard = EchoGuard()
    far, _, _ = assistant(REPLIES[:2])
    for sound in far.reshape(-1, 960):
        guard.played(sound)
    assert len(guard._waiting) <= 50


def test_without_the_library_sound_passes(monkeypatch):
    monkeypatch.setitem(sys.modules, "livekit", None)
    guard = EchoGuard()
    guard.played(np.full(960, 9_000, np.int16))
    frame = np.full(320, 500, np.int16)
    assert guard.clean(frame) is frame
