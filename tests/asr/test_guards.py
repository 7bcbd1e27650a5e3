from __future__ import annotations

import pytest

from app.asr.guards import is_hallucinated, without_loop


@pytest.mark.parametrize(
    ("text", "seconds", "kept"),
    [
        ("Stop. Stop. Stop. Stop. Stop. Stop. Stop.", 0.6, "Stop."),
        ("Lock the door. Lock the door. Lock the door. Lock the", 2.0, "Lock the door."),
        ("Stop, stop, stop, stop!", 1.6, "Stop, stop, stop, stop!"),  # said at a speaker's pace
        ("Lock the door. Open the door. Lock the door.", 1.5, "Lock the door. Open the door. Lock the door."),
        ("No.", 0.3, "No."),
        ("", 0.3, ""),
    ],
)
def test_of_a_loop_the_phrase_is_kept_once(text, seconds, kept):
    assert without_loop(text, seconds) == kept


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
