"""Our own words are known when they come back, and nobody else's are taken for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialogue.words.echo import is_echo

SPOKEN = "The weather in Paris is sunny today, with a high of twenty degrees. If you are disposed to walk, yes"


@pytest.mark.parametrize(
    "words",
    [
        "The weather in Paris is sunny today",
        "weather in paris",
        "sunny today with a high",
        "If you are ill-sposed to walk",
        "Sunny today with the high of 20 degrees.",
        "The whether in Paris is sonny today with a high of twenty the Greece",
        "to walk",
        "walk, yes.",
        "Yes.",
        "disposed to walk yes",
        "twenty degrees",
    ],
)
def test_what_was_just_spoken_is_an_echo_however_badly_heard(words: str) -> None:
    assert is_echo(words, SPOKEN)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "...",
        "is",
        "weather",
        "the",
        "Paris is",
        "stop",
        "no",
        "What about London?",
        "What is the weather in London?",
        "sunny today stop",
        "Stop, sunny today with a high",
        "sunny today but what about tomorrow in London",
        "the weather is with you if yes",
    ],
)
def test_what_the_user_says_is_no_echo(words: str) -> None:
    assert not is_echo(words, SPOKEN)


@pytest.mark.parametrize(
    ("words", "spoken"),
    [
        ("the city music.", "Welcome to the city museum. On the ground floor"),
        ("things from force", "On the ground floor there are paintings from four centuries, a hall full"),
        ("Welcome to the MMO.", "Welcome to the city museum. On the"),
        ("The Ting's from four centuries.", "there are paintings from four centuries, a hall full of old clocks"),
        ("We'll the pasta for-", "Sure. Boil the pasta for ten minutes, then add tomatoes"),
        ("Hold the pasta for 10 minutes.", "Sure. Boil the pasta for ten minutes, then add tomatoes"),
        ("The McGarden.", "old clocks, and behind them a garden with a small pond."),
        ("as the leaves turn red.", "is autumn, because the leaves turn red and the air is cool"),
    ],
)
def test_what_the_recogniser_made_of_a_faint_echo_is_known(words: str, spoken: str) -> None:
    assert is_echo(words, spoken)


def test_a_short_word_is_an_echo_only_where_the_reply_has_just_come_to_it() -> None:
    assert is_echo("Yes", "I would say yes")
    assert not is_echo("Yes", "Yes, I would say that this is the best way")
    assert not is_echo("Stop", "You can stop at any time")
    assert is_echo("Stop.", "press the button called stop")


def test_an_answer_in_the_words_of_the_question_is_no_echo() -> None:
    question = "I can tell you of trains or of boats. Would you like tea or coffee?"
    assert not any(
        is_echo(words, question) for words in ("Coffee.", "Tea", "or coffee", "I would like tea", "tell me of trains")
    )
    assert is_echo("Would you like tea or coffee", question)


def test_chinese_is_compared_by_the_character() -> None:
    assert is_echo("今天巴黎天气晴朗", "你好，今天巴黎天气很晴朗，最高二十度")
    assert not is_echo("明天伦敦怎么样", "你好，今天巴黎天气很晴朗，最高二十度")
    assert not is_echo("停", "你好，今天巴黎天气很晴朗")


@pytest.mark.parametrize("word", ["mh" * 50_000, "\ud800" * 100_000, "嗯" * 100_000, "ab " * 30_000])
def test_words_of_any_length_are_compared_by_their_end(word: str) -> None:
    assert is_echo(word, word) in (True, False)
    assert is_echo(f"{word} the weather in paris is sunny today", f"{word} the weather in paris is sunny today")
    assert not is_echo(f"{word} but what about tomorrow in London", f"{word} the weather in paris is sunny today")


@given(st.text(), st.text())
def test_any_text_is_judged(words: str, spoken: str) -> None:
    assert is_echo(words, spoken) in (True, False)
    assert not is_echo(words, "")


@given(
    st.lists(st.sampled_from(["rain", "sun", "wind", "cloud", "river", "mountain"]), min_size=3, max_size=12), st.data()
)
def test_any_passage_of_three_words_is_found_again(spoken: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(spoken) - 3))
    end = data.draw(st.integers(start + 3, len(spoken)))
    assert is_echo(" ".join(spoken[start:end]), " ".join(spoken))
