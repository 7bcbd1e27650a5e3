from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from app.audio.frames import INPUT_RATE_HZ
from app.bench.turns.cases import Made, Must, Phrase, Say
from app.bench.turns.catalogue import catalogue, quick
from app.bench.turns.measure import chosen, scenes
from app.bench.turns.recordings import Recordings, find
from app.bench.turns.scene import render
from app.bench.turns.sounds import active_rms, levels, noise, pauses_near, scaled, silence, trimmed
from app.bench.turns.voices import Speakers
from app.errors import InvalidRequest

NOWHERE = Recordings(None, None)


@pytest.fixture(scope="module")
def speakers(store):
    """Both voices, as the benchmark has them."""
    return Speakers(next((store / "piper-joe").glob("*.onnx")))


def made(names, speakers, recordings=NOWHERE):
    cases = chosen(names, only_quick=False, recordings=recordings)
    return scenes(cases, speakers, recordings, lambda name: None)


def test_there_are_at_least_sixty_cases_of_every_kind_without_any_recording():
    cases = chosen((), only_quick=False, recordings=NOWHERE)
    assert len(cases) >= 60
    assert {case.must for case in cases} == set(Must)
    assert len({case.name for case in cases}) == len(cases)
    assert all(
        count >= 2 for count in Counter(case.category for case in cases if case.category != "monologue").values()
    )


def test_the_quick_set_is_a_third_with_all_categories():
    cases = quick(catalogue())
    assert {case.category for case in cases} == {case.category for case in catalogue()}
    assert len(cases) <= 0.45 * len(catalogue())


def test_labels_say_the_same_as_scripts():
    for case in catalogue():
        speech = [part for part in case.parts if isinstance(part, Say)]
        assert all(part.text.count("|") == len(part.pauses_ms) for part in speech), case.name
        if case.must is Must.NOTHING:
            assert not speech
            assert case.over_s is None
        if case.must in (Must.PLAY_ON, Must.STOP):
            assert case.over_s is not None, case.name
        if any(isinstance(part, Made) for part in case.parts):
            assert not case.wants_answer


def test_the_same_case_is_the_same_sound_each_time(speakers, store):
    names = ("pause-1", "pink-20db", "cough-alone", "typing-over", "stop-1")
    others = Speakers(next((store / "piper-joe").glob("*.onnx")))
    first, second = made(names, speakers), made(names, others)
    for (case, one), (_, other) in zip(first, second, strict=True):
        assert np.array_equal(one.sound, other.sound), case.name
        assert one.marks == other.marks


def test_speech_ends_at_the_sample_that_the_label_says(speakers):
    for case, scene in made(("question-1", "short-2", "pause-4"), speakers):
        assert not scene.sound[: scene.onset].any(), case.name
        assert not scene.sound[scene.end :].any(), case.name
        last = scene.sound[scene.end - INPUT_RATE_HZ // 50 : scene.end]
        assert np.abs(last.astype(int)).max() > 20, case.name


def test_pauses_are_as_long_as_the_script_says_and_silent(speakers):
    for case, scene in made(("pause-1", "list-2", "number-4"), speakers):
        (said,) = case.parts
        pauses = [after - before for (_, before), (after, _) in zip(scene.marks, scene.marks[1:], strict=False)]
        for pause, wanted_ms in zip(pauses, said.pauses_ms, strict=True):
            # Cut at blocks of 5 ms that sound: what dies away at the edges is pause too.
            assert wanted_ms <= pause * 1000 / INPUT_RATE_HZ <= wanted_ms + 60, case.name
        assert all(end - first > INPUT_RATE_HZ // 20 for first, end in scene.marks), case.name
        for (_, before), (after, _) in zip(scene.marks, scene.marks[1:], strict=False):
            assert not scene.sound[before:after].any()


def test_noise_is_as_loud_as_the_script_says(speakers):
    clean = render(next(case for case in catalogue() if case.name == "question-1"), speakers, NOWHERE)
    speech = active_rms(clean.sound)
    for case, scene in made(("pink-*db", "fan-*db"), speakers):
        hiss = scene.sound[scene.end + INPUT_RATE_HZ :]
        assert case.background is not None
        assert 20 * np.log10(speech / active_rms(hiss)) == pytest.approx(case.background.snr_db, abs=1.5)


def test_what_cannot_be_made_here_is_left_out_and_said():
    assert not any(
        isinstance(part, Phrase) for case in chosen((), only_quick=False, recordings=NOWHERE) for part in case.parts
    )
    assert len(NOWHERE.missing) == 2
    with pytest.raises(InvalidRequest, match="pytest-audioeval"):
        chosen(("real-hello_world",), only_quick=False, recordings=NOWHERE)
    with pytest.raises(InvalidRequest, match=r"question-\*"):
        chosen(("quesion-1",), only_quick=False, recordings=NOWHERE)


def test_recordings_come_with_the_words_that_are_scored(store):
    recordings = find(store)
    assert recordings.phrases is not None
    for case in catalogue():
        if case.needs_phrases:
            (part,) = case.parts
            assert (recordings.phrases / f"{part.name}.txt").read_text("utf-8").strip() == case.words


def test_pauses_are_found_where_the_script_means_them():
    word, short, long = noise("hiss", 0.3, 1), silence(0.08), silence(0.2)
    sound = np.concatenate([word, short, word, long, word, short, word])
    ((first, end),) = pauses_near(sound, (0.5,))
    assert abs(first - 0.68 * INPUT_RATE_HZ) < 160
    assert abs(end - 0.88 * INPUT_RATE_HZ) < 160
    both = pauses_near(sound, (0.2, 0.8))
    assert both[0][1] < 0.45 * INPUT_RATE_HZ
    assert both[1][0] > 1.1 * INPUT_RATE_HZ
    assert len(pauses_near(noise("hiss", 1.0, 1), (0.3, 0.6))) == 2, "a sound without pauses is cut all the same"


def test_a_trimmed_sound_begins_and_ends_with_sound():
    word = noise("hiss", 0.3, 1)
    cut = trimmed(np.concatenate([silence(0.2), word, scaled(word, -50.0), silence(0.1)]))
    assert abs(len(cut) - len(word)) <= 160
    assert len(trimmed(silence(0.5))) == 0
    assert levels(cut).min() > 0
