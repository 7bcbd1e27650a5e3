"""The silence that ends a turn: short when all says that the user is done, and never endless."""

from __future__ import annotations

from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialogue.words.endpoint import Patience, patience_s

PATIENCE = Patience(complete_s=0.2, unfinished_s=1.2, longest_s=2.0, threshold=0.5)


def test_a_finished_sentence_that_sounds_finished_is_answered_at_once() -> None:
    assert patience_s(0.9, "What is that for?", PATIENCE) == pytest.approx(0.2)


def test_words_nobody_ends_on_outweigh_the_turn_model() -> None:
    assert patience_s(0.99, "I would like to.", PATIENCE) == pytest.approx(1.2)


def test_half_a_sentence_is_an_answer_only_for_a_model_that_is_very_sure() -> None:
    for words in ("Because it was so late.", "I want to.", "Do you want to?"):
        assert [patience_s(p, words, PATIENCE) for p in (0.9, 0.97)] == pytest.approx([1.2, 0.2])
        assert patience_s(None, words, PATIENCE) > 1.2
    assert patience_s(0.99, "Because it was so late", PATIENCE) == pytest.approx(1.2)


def test_a_short_number_waits_for_its_next_group_whatever_the_turn_model_thinks() -> None:
    assert patience_s(0.99, "My number is 555.", PATIENCE) == pytest.approx(1.2), "each group sounds like the last"
    assert patience_s(0.9, "My number is 555", PATIENCE) == pytest.approx(1.2)
    assert patience_s(0.7, "My number is 555.", PATIENCE) > 1.2


@pytest.mark.parametrize(
    "words", ["Once a week.", "After the party.", "And then?", "What for?", "My room number is 5."]
)
def test_short_answers_and_questions_are_answered_at_once(words: str) -> None:
    assert patience_s(0.9, words, PATIENCE) == pytest.approx(0.2)


def test_a_turn_without_words_yet_waits_as_long_as_may_be() -> None:
    assert patience_s(0.99, None, PATIENCE) == 2.0


def test_an_unfinished_sound_waits_less_the_more_finished_the_words_are() -> None:
    broken_off, open_, whole = (patience_s(0.1, words, PATIENCE) for words in ("I went to the", "I went", "I went."))
    assert 2.0 >= broken_off > open_ > whole > 0.2


def test_a_verdict_between_yes_and_no_waits_as_for_a_pause_between_sentences() -> None:
    assert [round(patience_s(p, "We went to Spain.", PATIENCE), 2) for p in (0.5, 0.7, 0.87, 0.88)] == [
        0.65,
        0.65,
        0.65,
        0.2,
    ]
    assert patience_s(0.01, "We went to Spain.", PATIENCE) > 1.1


def test_a_whole_number_needs_no_full_stop() -> None:
    number = "My phone number is 415 555 1212"
    assert patience_s(0.3, number, PATIENCE) == patience_s(0.3, f"{number}.", PATIENCE)


def test_a_whole_question_is_waited_on_less_than_a_statement() -> None:
    assert patience_s(0.1, "What is that for?", PATIENCE) < 0.6 < patience_s(0.1, "I know what that is for.", PATIENCE)


def test_without_a_verdict_the_words_decide() -> None:
    assert (
        0.2 < patience_s(None, "What time is it?", PATIENCE) < patience_s(None, "What time is it and", PATIENCE) < 2.0
    )
    assert patience_s(nan, "Yes.", PATIENCE) == patience_s(None, "Yes.", PATIENCE)


_seconds = st.floats(0, 5)
_probabilities = st.floats(0, 1)
_patience = st.builds(Patience, _seconds, _seconds, _seconds, _probabilities)
_texts = (
    st.none()
    | st.text(max_size=30)
    | st.sampled_from(["Yes.", "and", "My number is 5", "My number is 5.", "I want to.", "好的。", "because..."])
)


@given(_probabilities, _probabilities, _texts, _patience)
def test_the_surer_the_model_the_shorter_the_wait(
    one: float, other: float, words: str | None, patience: Patience
) -> None:
    doubtful, sure = sorted((one, other))
    assert patience_s(doubtful, words, patience) >= patience_s(sure, words, patience) - 1e-9


@given(st.none() | _probabilities, _texts, _patience)
def test_no_wait_is_longer_than_the_longest(completeness: float | None, words: str | None, patience: Patience) -> None:
    shortest = min(patience.complete_s, patience.unfinished_s, patience.longest_s)
    assert shortest - 1e-9 <= patience_s(completeness, words, patience) <= patience.longest_s + 1e-9
