from __future__ import annotations

import pytest

from app.asr.guards import is_hallucinated, without_loop


@pytest.mark.parametrize(
    ("text", "seconds", "kept"),
    [
        ("Stop. Stop. Stop. Stop. Stop. Stop. Stop.", 0.6, "Stop."),
        ("Lock the door. Lock the door. Lock the door. Lock the", 2.0, "Lock the door."),
        ("Yes. Lock the door. Lock the door. Lock the door. Lock the", 2.5, "Yes. Lock the door."),
        ("Yes. Lock the door. Lock the door. Lock the door. Lock the do", 2.5, "Yes. Lock the door."),
        ("你好世界世界世界世界世界世界", 1.0, "你好世界"),
        ("对对对对", 0.6, "对对对对"),
        ("Stop, stop, stop, stop!", 1.6, "Stop, stop, stop, stop!"),  # said at a speaker's pace
        ("Lock the door. Open the door. Lock the door.", 1.5, "Lock the door. Open the door. Lock the door."),
        ("No.", 0.3, "No."),
        ("", 0.3, ""),
    ],
)
def test_of_a_loop_the_phrase_is_kept_once(text, seconds, kept):
    assert without_loop(text, no_speech=0.05, seconds=seconds) == kept


def test_a_loop_in_what_may_be_noise_stays_and_betrays_it():
    for text, no_speech in (("PAPAPAPAPAPAPA", 0.1), ("Oh no. " * 12, 0.6)):
        assert without_loop(text, no_speech=no_speech, seconds=1.0) == text
        assert is_hallucinated(text, no_speech=no_speech, logprob=-0.1, seconds=1.0)


@pytest.mark.parametrize("text", ["No.", "Yes", "Stop!", "Tak.", "对", "嗯。", "Ok", "Thank you."])
def test_a_short_word_that_is_heard_surely_is_believed(text):
    assert not is_hallucinated(text, no_speech=0.2, logprob=-0.3, seconds=0.5)


@pytest.mark.parametrize(
    ("text", "no_speech", "logprob"),
    [
        ("Okay.", 0.9, -1.4),
        ("Thank you.", 0.3, -0.9),
        ("Thanks for watching!", 0.8, -0.3),
        ("[Music]", 0.1, -0.1),
        ("♪", 0.1, -0.1),
        ("You", 0.5, -1.5),
    ],
)
def test_what_whisper_makes_of_noise_is_not_believed(text, no_speech, logprob):
    assert is_hallucinated(text, no_speech=no_speech, logprob=logprob, seconds=2.0)
