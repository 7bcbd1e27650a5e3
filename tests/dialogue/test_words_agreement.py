"""Words become certain when two hypotheses agree on them, and stay so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialogue.words.agreement import agreed
from app.dialogue.words.plain import plain


@pytest.mark.parametrize(
    ("previous", "latest", "confirmed", "then"),
    [
        ("", "Hello there", "", ""),
        ("Hello", "Hello", "", ""),
        ("Hello I", "Hello, I am", "", "Hello"),
        ("Hello I am", "Hello, I am Bob.", "", "Hello, I"),
        ("Hello, I am Bob", "Hello. I am Bobby now", "Hello, I", "Hello, I am"),
        ("Hello. My name is", "Hello. My name is Bob", "Hello.", "Hello. My name"),
        ("what's the weather in", "What’s the weather in Paris", "", "What’s the weather"),
        ("a b c", "x b c", "a", "a"),
        ("I want too go", "I want to go home", "", "I want"),
        ("今天天气", "今天天气很好", "", "今天天"),
        ("今天天气怎么", "今天天气，怎么样？", "今天天", "今天天气，怎"),
        ("नमस्ते दुनिया में", "नमस्ते दुनिया में आज", "", "नमस्ते दुनिया"),
    ],
)
def test_what_two_hypotheses_begin_with_is_confirmed_but_for_their_last_word(
    previous: str, latest: str, confirmed: str, then: str
) -> None:
    assert agreed(previous, latest, confirmed) == then


_hypotheses = st.lists(st.text("aAb ,.今天-", max_size=12) | st.text(max_size=12), max_size=8)


@given(_hypotheses)
def test_confirmed_words_never_shrink_and_stay_within_the_latest(hypotheses: list[str]) -> None:
    confirmed = previous = ""
    for latest in hypotheses:
        longer = agreed(previous, latest, confirmed)
        assert longer.startswith(confirmed)
        if longer != confirmed:
            assert plain(longer) == plain(latest)[: len(plain(longer))]
            assert len(plain(longer)) < len(plain(latest))
            assert len(plain(longer)) < len(plain(previous))
        previous, confirmed = latest, longer
