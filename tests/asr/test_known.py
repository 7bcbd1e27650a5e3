from __future__ import annotations

import pytest

from app.asr.known import spelled_as


@pytest.mark.parametrize(
    ("known", "text", "told"),
    [
        ("The new Library", "The new library closed.", "The new Library closed."),
        ("the committee, approved.", "The committee approved the budget.", "the committee, approved the budget."),
        ("Stop.", "Stop!", "Stop!"),
        ("We approved the bud", "We approved the budget.", "We approved the budget."),
        ("今天,天气", "今天天气很好。", "今天,天气很好。"),
        ("नमस्ते", "नमस्ते दुनिया", "नमस्ते दुनिया"),
        ("", "Anything.", "Anything."),
        ("...", "Anything.", "Anything."),
    ],
)
def test_the_text_begins_with_the_known_words_as_they_were_told(known, text, told):
    assert spelled_as(known, text) == told


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ("Hello there my friend", "The committee approved the budget."),
        ("The committee disproved", "The committee approved the budget."),
        ("The committee approved the budget", "The committee."),
        ("Yes", ""),
    ],
)
def test_known_words_that_the_sound_does_not_bear_out_change_nothing(known, text):
    assert spelled_as(known, text) == text
