from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from app.audio.utterance import UtteranceRecorder
from app.audio.vad import SileroModel, SpeechLikely, SpeechStarted, SpeechStopped, VoiceActivity, load_vad
from app.config.settings import VadSettings
from app.errors import ModelError
from tests.kit.sounds import clicks, cough, hiss, music, silence, tone
from tests.kit.speech import recording, say, say_piper, sounding

SETTINGS = VadSettings()  # type: ignore[call-arg]


@pytest.fixture(scope="module")
def model():
    return load_vad(SETTINGS)[0]


def hear(model, sound, settings=SETTINGS):
    """Every event, with the samples that had been pushed when it was told."""
    activity = VoiceActivity(model, settings)
    frames = range(0, len(sound) - 319, 320)
    return [(at + 320, event) for at in frames for event in activity.push(sound[at : at + 320])]


def listen(model, sound, settings=SETTINGS):
    """What started and stopped."""
    return [event for _, event in hear(model, sound, settings) if not isinstance(event, SpeechLikely)]


def fan(seconds, level, seed=4):
    """Low rumble with some air, as loud (rms of 32768) as ``level``."""
    spectrum = np.fft.rfft(np.random.default_rng(seed).normal(0, 1, int(seconds * 16_000)))
    wave = np.fft.irfft(spectrum / (1 + np.arange(len(spectrum)) / (80 * seconds)), int(seconds * 16_000))
    return wave * (level / wave.std())


def loudness(sound):
    first, last = sounding(sound)
    return float(np.sqrt(np.mean(sound[first:last].astype(float) ** 2)))


@pytest.mark.parametrize("word", ["yes", "no", "stop", "What time is it?"])
@pytest.mark.parametrize("loudness", [1.0, 0.1])
def test_speech_is_found_where_it_is(model, word, loudness):
    spoken = say(word)
    begins, ends = (16_000 + edge for edge in sounding(spoken))
    sound = (np.concatenate([silence(1), spoken, silence(1)]) * loudness).astype(np.int16)
    started, stopped = listen(model, sound)
    assert isinstance(started, SpeechStarted)
    assert isinstance(stopped, SpeechStopped)
    assert abs(started.at_sample - begins) < 0.1 * 16_000
    assert abs(stopped.at_sample - ends) < 0.05 * 16_000


@pytest.mark.parametrize("voice", [say, say_piper], ids=["hibari", "piper"])
@pytest.mark.parametrize("snr_db", [None, 20, 10, 5])
def test_a_word_is_likely_speech_within_its_first_sounds(model, voice, snr_db):
    """What is said over the assistant turns it down long before it is certain: "stop" begins with 100 ms of hiss."""
    for word, within_ms in (("Stop.", 170), ("Wait.", 110), ("No.", 110)):
        spoken = voice(word)
        first, last = sounding(spoken)
        for shift in (0, 100, 200):
            sound = np.concatenate([np.zeros(16_000 + shift), spoken[first:last], np.zeros(8_000)])
            if snr_db is not None:
                sound += fan(len(sound) / 16_000, loudness(spoken) / 10 ** (snr_db / 20))[: len(sound)]
            events = hear(model, np.clip(sound, -32_768, 32_767).astype(np.int16))
            (at, likely), (_, started) = events[:2]
            assert isinstance(likely, SpeechLikely)
            assert isinstance(started, SpeechStarted)
            assert 0 < at - 16_000 - shift <= within_ms * 16


def test_each_start_has_been_likely_first_and_only_once(model):
    spoken = np.concatenate([say("What time is it?"), silence(0.6)])
    kinds = [type(event) for _, event in hear(model, np.concatenate([silence(0.5), spoken, spoken]))]
    assert kinds == [SpeechLikely, SpeechStarted, SpeechStopped] * 2


def test_a_sound_that_falters_is_likely_but_never_starts(model):
    spoken = say("No.")
    first, _ = sounding(spoken)
    scrap = np.concatenate([silence(0.5), spoken[first : first + 600], silence(0.6)])
    assert [type(event) for _, event in hear(model, np.concatenate([scrap, scrap]))] == [SpeechLikely] * 2


@pytest.mark.parametrize("snr_db", [None, 20, 10])
def test_the_end_of_speech_is_told_soon_after_silence_ms_of_silence(model, snr_db):
    """Silero takes sound for speech for up to 150 ms after it has ended; that must not be waited for twice."""
    for text in ("What time is it?", "Can you book a table for four?", "Yes."):
        spoken = say(text)
        first, last = sounding(spoken)
        sound = np.concatenate([np.zeros(16_000), spoken[first:last], np.zeros(16_000)])
        if snr_db is not None:
            sound += fan(len(sound) / 16_000, loudness(spoken) / 10 ** (snr_db / 20))[: len(sound)]
        events = hear(model, sound.astype(np.int16))
        at, stopped = events[-1]
        assert isinstance(stopped, SpeechStopped)
        assert at - 16_000 - (last - first) <= 16 * (SETTINGS.silence_ms + 72)
        assert at - stopped.at_sample >= 16 * SETTINGS.silence_ms


@pytest.mark.parametrize("name", ["en/quick_brown_fox", "es/pangrama", "ja/pangrama", "fr/comptage", "zh/pangrama"])
def test_fluent_speech_is_rarely_torn(model, name):
    events = listen(model, np.concatenate([silence(0.5), recording(name), silence(0.5)]))
    assert len(events) <= 4


def test_the_pre_roll_holds_the_first_sound_of_a_word_that_begins_with_a_plosive(model):
    spoken = say("Peter put the book back.")
    begins = 16_000 + sounding(spoken)[0]
    sound = np.concatenate([silence(1), spoken, silence(1)])
    recorder = UtteranceRecorder(pre_roll_ms=SETTINGS.pre_roll_ms, max_utterance_s=20)
    recorder.hold(0)
    recorder.push(sound)
    began = listen(model, sound)[0].at_sample
    assert began - recorder.pre_roll_samples <= begins - 0.25 * 16_000
    assert np.array_equal(recorder.utterance(began)[: recorder.pre_roll_samples], sound[began - 6_400 : began])


@pytest.mark.parametrize("name", ["en/quick_brown_fox", "zh/pangrama", "pl/liczenie", "hi/pangrama"])
def test_recorded_people_are_heard_in_other_languages_too(model, name):
    spoken = recording(name)
    events = listen(model, np.concatenate([silence(0.5), spoken, silence(1)]))
    assert events
    assert isinstance(events[0], SpeechStarted)
    assert isinstance(events[-1], SpeechStopped)
    assert events[-1].at_sample - events[0].at_sample > 0.6 * len(spoken)


@pytest.mark.parametrize(
    "sound",
    [silence(3), hiss(3), hiss(3, 0.2), clicks(3), cough(), tone(1000, 2)],
    ids=["silence", "hiss", "loud hiss", "clicks", "cough", "tone"],
)
def test_noise_is_no_speech(model, sound):
    assert listen(model, np.concatenate([silence(0.5), sound, silence(0.5)])) == []


def test_music_is_at_most_taken_for_a_word(model):
    """A first note can sound like a voice to Silero; the recogniser's guard then finds no words in it."""
    events = listen(model, np.concatenate([silence(0.5), music(4), silence(0.5)]))
    spans = zip(events[::2], events[1::2], strict=True)
    assert sum(stopped.at_sample - started.at_sample for started, stopped in spans) < 0.6 * 16_000


def test_a_pause_shorter_than_silence_ms_does_not_end_speech(model):
    spoken = say("What time is it?")
    first, last = sounding(spoken)
    spoken = spoken[first:last]
    patient = SETTINGS.model_copy(update={"silence_ms": 600})
    sound = np.concatenate([silence(0.5), spoken, silence(0.4), spoken, silence(1.5)])
    assert [type(event) for event in listen(model, sound, patient)] == [SpeechStarted, SpeechStopped]
    assert len(listen(model, sound, SETTINGS)) == 4


def test_conversations_that_share_the_model_do_not_share_its_memory(model):
    sound = np.concatenate([silence(0.5), say("Tell me a story."), silence(0.7)])
    alone = listen(model, sound)
    mine, other = VoiceActivity(model, SETTINGS), VoiceActivity(model, SETTINGS)
    noise, together = hiss(len(sound) / 16_000, 0.2), []
    for at in range(0, len(sound) - 319, 320):
        other.push(noise[at : at + 320])
        together += mine.push(sound[at : at + 320])
    assert [event for event in together if not isinstance(event, SpeechLikely)] == alone


def test_sessions_add_no_threads(model):
    sound = np.concatenate([say("The committee approved the budget, and work begins on Monday."), hiss(2)])
    before = threading.active_count(), len(_native_threads())
    many = [VoiceActivity(model, SETTINGS) for _ in range(30)]
    for at in range(0, len(sound) - 319, 320 * 4):
        for activity in many:
            activity.push(sound[at : at + 320])
    assert (threading.active_count(), len(_native_threads())) == before


def test_the_probability_and_the_state_can_be_read(model):
    activity = VoiceActivity(model, SETTINGS)
    assert (activity.speaking, activity.probability) == (False, 0.0)
    spoken = say("What time is it?")
    states = []
    for at in range(0, len(spoken) - 319, 320):
        activity.push(spoken[at : at + 320])
        states.append((activity.speaking, activity.probability))
    assert any(speaking and probability > 0.9 for speaking, probability in states)


def test_a_missing_model_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"nothing\.onnx is missing"):
        SileroModel(tmp_path / "nothing.onnx")


def test_hearing_never_imports_torch():
    code = (
        "import sys; from app.audio import load_vad; from app.config.settings import VadSettings;"
        "load_vad(VadSettings()); import app.asr.faster_whisper, app.asr.openai; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _native_threads():
    from pathlib import Path

    tasks = Path("/proc/self/task")
    return list(tasks.iterdir()) if tasks.is_dir() else []
