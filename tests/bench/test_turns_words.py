from __future__ import annotations

import pytest

from app.bench.turns.words import WordErrors, compare


@pytest.mark.parametrize(
    ("said", "heard", "errors", "lost"),
    [
        ("What is the capital of France?", "what is the capital of france", 0, 0),
        ("five five five, oh one two", "555-012", 0, 0),
        ("One two three ten.", "1, 2, 3, 10", 0, 0),
        ("So, um, yesterday", "So yesterday", 0, 0),
        ("I don't know", "I don't", 1, 1),
        ("milk and butter", "milk butter", 1, 1),
        ("milk and butter", "silk and butter", 1, 0),
        ("milk", "milk milk", 1, 0),
        ("a b c d", "", 4, 4),
        ("", "thank you", 2, 0),
    ],
)
def test_words_are_counted_as_a_person_would(said, heard, errors, lost):
    found = compare(said, heard)
    assert (found.errors, found.lost) == (errors, lost)


def test_counts_add_up():
    assert WordErrors(3, 1, 1) + WordErrors(2, 1, 0) == WordErrors(5, 2, 1)
