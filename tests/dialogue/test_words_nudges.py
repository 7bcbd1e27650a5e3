"""Someone who only asks whether we are still there is not asking for something new."""

from __future__ import annotations

import pytest

from app.dialogue.words.nudges import is_nudge


@pytest.mark.parametrize(
    "words",
    [
        "Hello?",
        "hello hello",
        "Hello? Are you there?",
        "Hey, can you hear me?",
        "喂？",
        "喂，你好，你还在吗",
        "Hallo?",
        "¿Hola?",
    ],
)
def test_a_nudge_is_known(words: str) -> None:
    assert is_nudge(words)


@pytest.mark.parametrize(
    "words", ["", "?", "Hello, what time is it?", "hi Bob", "can you hear me out", "你好吗", "hell"]
)
def test_anything_else_said_is_no_nudge(words: str) -> None:
    assert not is_nudge(words)
