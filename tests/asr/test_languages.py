from __future__ import annotations

import pytest

from app.asr.languages import choose_language

EN_FR = ("en", "fr")


@pytest.mark.parametrize(
    ("probabilities", "expected", "seconds", "chosen"),
    [
        ({"la": 0.85, "en": 0.1, "fr": 0.05}, "", 3.0, "en"),  # Latin is not allowed, however likely
        ({"en": 0.4, "fr": 0.5}, "en", 3.0, "en"),
        ({"en": 0.1, "fr": 0.8}, "en", 3.0, "fr"),
        ({"en": 0.1, "fr": 0.8}, "en", 0.4, "en"),
        ({"en": 0.1, "fr": 0.8}, "pl", 3.0, "fr"),  # expected, but not allowed
        ({"en": 0.1, "fr": 0.8}, "pl", 0.4, "fr"),
        ({"xx": 1.0}, "fr", 3.0, "en"),  # none that is allowed: the turn is heard all the same
    ],
)
def test_the_expected_language_stays_unless_another_is_clearly_likelier(probabilities, expected, seconds, chosen):
    assert choose_language(probabilities, allowed=EN_FR, expected=expected, seconds=seconds) == chosen


def test_without_an_allowlist_any_language_may_win():
    assert choose_language({"sw": 0.6, "en": 0.4}, allowed=(), expected="", seconds=2.0) == "sw"
