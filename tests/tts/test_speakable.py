"""What the voice is given for what the model wrote."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tts.clause import Clause
from app.tts.clauses import ClauseSplitter
from app.tts.speakable import speakable

GOLDEN = Path(__file__).parent / "golden"
FILES = {path.stem: tomllib.loads(path.read_text("utf-8")) for path in sorted(GOLDEN.glob("*.toml"))}
REPLIES = FILES.pop("replies")["cases"]
CASES = [
    pytest.param(raw, spoken, file.get("language", "en"), id=f"{name}: {raw[:40]!r}")
    for name, file in FILES.items()
    for raw, spoken in file["cases"]
]
HAN = re.compile("[\u4e00-\u9fff]")
ALPHABET = "abI1.,:;!?*_`#[](){}|<>$€%/\\-+=~@&^ \n'\"é你。，😀\u200d"
WRITTEN = st.text(alphabet=ALPHABET, max_size=80)
PIECES = st.lists(st.one_of(st.sampled_from([case.values[0] for case in CASES]), WRITTEN), max_size=5)
REPLY = st.tuples(PIECES, st.sampled_from([" ", "\n", "\n\n", ". "])).map(lambda parts: parts[1].join(parts[0]))
LATEX = st.lists(
    st.sampled_from(
        [*"$$${}{}^_\\()[]x1 +-/=,", *("\\frac", "\\sqrt", "\\sum", "\\int", "\\text", "\\(", "\\)", "\\to", "{}")]
    ),
    max_size=24,
).map("".join)
LANGUAGES = st.sampled_from(["en", "zh", "de", "auto"])


def say(text: str, language: str, pieces: list[str] | None = None) -> list[Clause]:
    splitter = ClauseSplitter(language)
    clauses = [clause for piece in pieces or list(text) for clause in splitter.feed(piece)]
    return clauses + splitter.finish()


def words(text: str) -> list[str]:
    return [word for word in (part.strip(".,;:!?").lower() for part in text.split()) if word]


@pytest.mark.parametrize(("raw", "spoken", "language"), CASES)
def test_the_golden_text_is_spoken_as_written_down(raw: str, spoken: str, language: str) -> None:
    assert speakable(raw, language=language).text == spoken


@pytest.mark.parametrize(("raw", "spoken", "language"), CASES)
def test_a_golden_text_fed_character_by_character_is_spoken_with_the_same_words(
    raw: str, spoken: str, language: str
) -> None:
    gap = "" if language == "zh" else " "
    assert words(gap.join(clause.spoken for clause in say(raw, language))) == words(spoken)


@pytest.mark.parametrize(("raw", "spoken", "language"), CASES)
def test_no_golden_text_is_spoken_with_signs_or_digits(raw: str, spoken: str, language: str) -> None:
    if language != "de":
        assert not set(spoken) & set("*#_`|<>[]{}~^$€£¥%=+°0123456789\\")


@pytest.mark.parametrize(("raw", "spoken", "language"), CASES)
def test_every_word_of_a_golden_text_ends_within_it_and_after_the_one_before(
    raw: str, spoken: str, language: str
) -> None:
    ends = speakable(raw, language=language).word_ends
    assert len(ends) == len(spoken.split())
    assert list(ends) == sorted(ends)
    assert all(0 <= end <= len(raw) for end in ends)
    assert not ends or ends[-1] == len(raw)


@pytest.mark.parametrize(("raw", "clauses"), REPLIES)
def test_a_golden_reply_is_spoken_in_these_clauses(raw: str, clauses: list[str]) -> None:
    language = "zh" if HAN.search(raw) else "en"
    assert [clause.spoken for clause in say(raw, language) if clause.spoken] == clauses


@settings(deadline=None)
@given(REPLY, LANGUAGES, st.lists(st.integers(0, 400), max_size=12))
def test_however_a_reply_arrives_it_is_spoken_the_same(raw: str, language: str, cuts: list[int]) -> None:
    edges = [0, *sorted(cut for cut in cuts if 0 < cut < len(raw)), len(raw)]
    pieces = [raw[begin:end] for begin, end in pairwise(edges)]
    expected = say(raw, language)
    assert say(raw, language, pieces) == expected
    assert say(raw, language, [raw]) == expected
    ends = [end for clause in expected for end in clause.word_ends]
    assert ends == sorted(ends)
    assert all(end <= len(raw) for end in ends)


@settings(deadline=None)
@given(REPLY)
def test_thoughts_are_never_spoken_and_change_nothing_after_them(reply: str) -> None:
    if "think" in reply:
        return
    text = f"<think>\nSecret, {reply} secret.\n</think>\n\n{reply}"
    assert [clause.spoken for clause in say(text, "en")] == [clause.spoken for clause in say("\n\n" + reply, "en")]
    assert all(not clause.spoken for clause in say(f"<think>{reply}", "en"))


@settings(deadline=None)
@given(LATEX, LANGUAGES)
def test_broken_formulas_are_spoken_somehow(raw: str, language: str) -> None:
    spoken = speakable(raw, language=language)
    assert len(spoken.word_ends) == len(spoken.text.split())
    assert "None" not in spoken.text


@settings(deadline=None)
@given(WRITTEN)
def test_any_text_gives_one_rising_offset_per_word_and_the_last_covers_it_all(raw: str) -> None:
    spoken = speakable(raw)
    assert len(spoken.word_ends) == len(spoken.text.split())
    assert list(spoken.word_ends) == sorted(spoken.word_ends)
    if spoken.text:
        assert spoken.word_ends[-1] == len(raw)
        assert "*" not in spoken.text
        assert "asterisk" not in spoken.text


@settings(deadline=None)
@given(REPLY)
def test_nothing_of_an_english_reply_is_spoken_as_a_sign_or_a_digit(reply: str) -> None:
    for clause in say(reply, "en"):
        assert not set(clause.spoken) & set("*#`|<>{}~^\\\\_$€£%0123456789")


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


@pytest.mark.parametrize("language", ["de", "fr", "ja"])
def test_another_language_keeps_its_digits_but_loses_its_markup(language: str) -> None:
    assert speakable("**22,1** `x`", language=language).text == "22,1 x"
