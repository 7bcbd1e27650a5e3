from __future__ import annotations

import pytest

from app.asr.languages import choose_language, settled_language


@pytest.mark.parametrize(
    ("shares", "expected", "chosen"),
    [
        ({"la": 0.85, "en": 0.1, "fr": 0.05}, "", "en"),  # Latin is not allowed, however likely
        ({"en": 0.4, "fr": 0.55}, "en", "en"),
        ({"en": 0.1, "fr": 0.8}, "en", "fr"),
        ({"yo": 0.6, "en": 0.005, "fr": 0.14}, "en", "en"),  # many times likelier, but nothing is sure
        ({"en": 0.1, "fr": 0.8}, "pl", "fr"),  # expected, but not allowed
        ({"xx": 1.0}, "fr", "fr"),  # none that is allowed: the turn is heard all the same
        ({"xx": 1.0}, "", "en"),
    ],
)
def test_the_expected_language_stays_unless_another_is_clearly_likelier(shares, expected, chosen):
    assert choose_language(shares, ("en", "fr"), expected) == chosen


def test_without_an_allowlist_any_language_may_win():
    assert choose_language({"sw": 0.6, "en": 0.1}, (), "en") == "sw"
    assert choose_language({}, (), "") == "en"


def test_nothing_is_detected_where_nothing_could_be_learnt():
    assert settled_language(("fr",), "en", 9.0) == "fr"
    assert settled_language(("en", "fr"), "fr", 0.5) == "fr"
    assert settled_language(("en", "fr"), "pl", 0.5) == ""
    assert settled_language(("en", "fr"), "fr", 3.0) == ""
    assert settled_language((), "sw", 0.5) == "sw"
