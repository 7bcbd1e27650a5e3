"""What the voice is given for what the model wrote."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tts.clauses import ClauseSplitter
from app.tts.speakable import speakable

GOLDEN = Path(__file__).parent / "golden"
CASES = [
    pytest.param(raw, spoken, id=f"{path.stem}: {raw[:40]!r}")
    for path in sorted(GOLDEN.glob("*.toml"))
    for raw, spoken in tomllib.loads(path.read_text("utf-8"))["cases"]
]
CHINESE = re.compile("[\u4e00-\u9fff]")
WRITTEN = st.text(alphabet="ab1.,:;!?*_`#[](){}|<>$€%/\\-+=~@& \n'\"é你。，😀\u200d", max_size=80)


def words(text: str) -> list[str]:
    return [word for word in (part.strip(".,;:!?").lower() for part in text.split()) if word]


@pytest.mark.parametrize(("raw", "spoken"), CASES)
def test_the_golden_text_is_spoken_as_written_down(raw: str, spoken: str) -> None:
    assert speakable(raw).text == spoken


@pytest.mark.parametrize(("raw", "spoken"), CASES)
def test_a_golden_text_fed_character_by_character_is_spoken_with_the_same_words(raw: str, spoken: str) -> None:
    splitter = ClauseSplitter()
    clauses = [clause for char in raw for clause in splitter.feed(char)] + splitter.finish()
    gap = "" if CHINESE.search(raw) else " "
    assert words(gap.join(clause.spoken for clause in clauses)) == words(spoken)


@pytest.mark.parametrize(("raw", "spoken"), CASES)
def test_no_golden_text_is_spoken_with_signs_or_digits(raw: str, spoken: str) -> None:
    if not CHINESE.search(raw):
        assert not set(spoken) & set("*#_`|<>[]{}~^$€£%0123456789\\")


@given(WRITTEN)
def test_any_text_gives_one_rising_offset_per_word_and_the_last_covers_it_all(raw: str) -> None:
    spoken = speakable(raw)
    assert len(spoken.word_ends) == len(spoken.text.split())
    assert list(spoken.word_ends) == sorted(spoken.word_ends)
    if spoken.text:
        assert spoken.word_ends[-1] == len(raw)
        assert "*" not in spoken.text
        assert "asterisk" not in spoken.text


def test_an_offset_lies_at_the_end_of_the_raw_word_and_takes_its_marks_along() -> None:
    raw = "It is **really** worth $3.50, see [the docs](https://x.org) now."
    spoken = speakable(raw)
    heard = {word: raw[:end] for word, end in zip(spoken.text.split(), spoken.word_ends, strict=True)}
    assert heard["really"] == "It is **really**"
    assert heard["worth"] == "It is **really** worth"
    assert heard["three"] == "It is **really** worth "  # a half-heard amount is not heard
    assert heard["cents,"] == "It is **really** worth $3.50,"
    assert heard["the"].endswith("see [the")
    assert heard["docs"] == raw[: -len(" now.")]


def test_dashes_and_numbers_mark_lists_only_at_the_start_of_a_line() -> None:
    assert speakable("- milk", line_start=True).text == "milk"
    assert speakable("3 - 2", line_start=False).text == "three minus two"


def test_a_list_item_without_a_full_stop_gets_one_at_its_end() -> None:
    assert speakable("- milk\n", line_end=True).text == "milk."
    assert speakable("## Shopping\n", line_end=True).text == "Shopping."


@pytest.mark.parametrize("language", ["de", "fr", "zh"])
def test_another_language_keeps_its_digits_but_loses_its_markup(language: str) -> None:
    assert speakable("**22,1** `x`", language=language).text == "22,1 x"
