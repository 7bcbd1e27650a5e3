from __future__ import annotations

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from app.audio.utterance import UtteranceRecorder
from app.audio.vad import SileroModel, SpeechStarted, SpeechStopped, VoiceActivity, load_vad
from app.config.settings import VadSettings
from app.errors import ModelError
from tests.kit.sounds import clicks, cough, hiss, music, silence, tone
from tests.kit.speech import recording, say, sounding

SETTINGS = VadSettings()  # type: ignore[call-arg]


@pytest.fixture(scope="module")
def model():
    return load_vad(SETTINGS)[0]


def listen(model, sound, settings=SETTINGS):
    activity = VoiceActivity(model, settings)
    return [event for at in range(0, len(sound) - 319, 320) for event in activity.push(sound[at : at + 320])]


@pytest.mark.parametrize("word", ["yes", "no", "stop", "What time is it?"])
@pytest.mark.parametrize("loudness", [1.0, 0.1])
def test_speech_is_found_where_it_is(model, word, loudness):
    spoken = say(word)
    begins, ends = (16_000 + edge for edge in sounding(spoken))
    sound = (np.concatenate([silence(1), spoken, silence(1)]) * loudness).astype(np.int16)
    started, stopped = listen(model, sound)
    assert isinstance(started, SpeechStarted)
    assert isinstance(stopped, SpeechStopped)
    assert abs(started.at_sample - begins) < 0.13 * 16_000
    assert -0.06 * 16_000 < stopped.at_sample - ends < 0.2 * 16_000


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


def test_music_is_at_most_taken_for_a_word():
    """A first note can sound like a voice to Silero; the recogniser's guard then finds no words in it."""
    events = listen(load_vad(SETTINGS)[0], np.concatenate([silence(0.5), music(4), silence(0.5)]))
    spans = zip(events[::2], events[1::2], strict=True)
    assert sum(stopped.at_sample - started.at_sample for started, stopped in spans) < 0.5 * 16_000


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
    assert together == alone


def test_sessions_add_no_threads_and_a_frame_costs_less_than_a_millisecond(model):
    sound = np.concatenate([say("The committee approved the budget, and work begins on Monday."), hiss(2)])
    before = threading.active_count(), len(_native_threads())
    many = [VoiceActivity(model, SETTINGS) for _ in range(30)]
    began = time.thread_time()
    frames = 0
    for at in range(0, len(sound) - 319, 320 * 4):
        for activity in many:
            activity.push(sound[at : at + 320])
            frames += 1
    assert (time.thread_time() - began) / frames < 0.001
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
