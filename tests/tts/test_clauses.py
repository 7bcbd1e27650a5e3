"""Where a reply is cut while it is being written."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tts.clause import Clause
from app.tts.clauses import MAX_CHARS, ClauseSplitter
from app.tts.speakable import Spoken, speakable

FAULTY = (
    "**Note:** pi is 3.14, or 22,1. It costs $3.14. Dr. Smith comes at 9:30 a.m. and says hi! 😀\n\n"
    "- first, do `a, b`\n- see [the docs](https://x.org/a_b?c=1)\n1. one\n2. two\n\n```py\nprint(1)\n```\n"
    "Mail a.b@c.org, e.g. on March 5, 2024. The U.S. It is 98.6°F: 5 km, 50%. 你好，世界。很好！ | a | b |\n"
)
ALPHABET = "ab 1.,:!?*`#[]()|$-\n你。，😀"
THOUGHT = "Well, <think>how? **now**\n```\n- 3.5</think>I see \\(x, y\\) and $a, b$. <think>never closed. "
TEXTS = st.one_of(st.just(THOUGHT), st.text(alphabet=ALPHABET, max_size=200), st.just(FAULTY), st.text(max_size=60))


def split(text: str, cuts: list[int] | None = None) -> list[Clause]:
    splitter = ClauseSplitter()
    edges = [0, *sorted(cut for cut in cuts or [] if 0 < cut < len(text)), len(text)]
    clauses = [c for a, b in pairwise(edges) for c in splitter.feed(text[a:b])]
    return clauses + splitter.finish()


def spoken(text: str) -> list[str]:
    return [clause.spoken for clause in split(text)]


@settings(deadline=None)
@given(TEXTS, st.lists(st.integers(0, 400), max_size=12))
def test_how_the_reply_is_cut_into_pieces_changes_no_clause(text: str, cuts: list[int]) -> None:
    assert split(text, cuts) == split(text, list(range(len(text))))


@settings(deadline=None)
@given(TEXTS)
def test_clauses_tile_the_reply_and_their_word_ends_rise_to_their_end(text: str) -> None:
    clauses = split(text)
    assert "".join(text[clause.raw_start : clause.raw_end] for clause in clauses) == text
    position = 0
    for clause in clauses:
        assert clause.raw_start == position
        position = clause.raw_end
        assert len(clause.word_ends) == len(clause.spoken.split())
        assert list(clause.word_ends) == sorted(clause.word_ends)
        if clause.word_ends:
            assert clause.raw_start <= clause.word_ends[0]
            assert clause.word_ends[-1] == clause.raw_end
    assert all(clause.spoken for clause in clauses[:-1])  # only the last may be silent


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sure! I can help.", ["Sure!", "I can help."]),
        ("Of course, the answer is four.", ["Of course,", "the answer is four."]),
        ("However, that is all.", ["However,", "that is all."]),
        ("It costs $3.14. Next.", ["It costs three dollars and fourteen cents.", "Next."]),
        ("About 22,1 of them. Yes.", ["About twenty-two comma one of them.", "Yes."]),
        ("I met Dr. Smith. He left.", ["I met Doctor Smith.", "He left."]),
        ("Come at 9:30 a.m. sharp. Bye.", ["Come at nine thirty A.M sharp.", "Bye."]),
        ("Come at 9:30 a.m. Then go.", ["Come at nine thirty A.M.", "Then go."]),
        ("The U.S. Army is big. Yes.", ["The U.S Army", "is big.", "Yes."]),
        ("He is in the U.S. It is big.", ["He is in the U.S.", "It is big."]),
        ("Some fruit, e.g. Fuji apples. Yes.", ["Some fruit,", "for example Fuji apples.", "Yes."]),
        ("Take 5, 6 and 7. Good.", ["Take five, six and seven.", "Good."]),
        ("On March 5, 2024 it rained. Yes.", ["On March fifth, twenty twenty-four it rained.", "Yes."]),
        ('He said "go." Then left.', ["He said go.", "Then left."]),
        ("你好，世界。今天好。", ["你好，", "世界。", "今天好。"]),
        ("See [one, two. Three](http://a.b) now.", ["See one, two. Three now."]),
        ("Run `a, b. C` now.", ["Run a, b. C now."]),
    ],
)
def test_a_clause_ends_where_a_speaker_would_rest(text: str, expected: list[str]) -> None:
    assert spoken(text) == expected


def test_a_sentence_is_given_away_with_the_very_character_after_its_stop() -> None:
    splitter = ClauseSplitter()
    assert splitter.feed("I like Paris.") == []
    assert [clause.spoken for clause in splitter.feed(" ")] == ["I like Paris."]


def test_a_fenced_block_is_named_once_and_its_code_is_not_read() -> None:
    said = spoken("Look:\n```python\nprint('x')\n\nfor i in y: pass\n```\nDone.")
    assert said == ["Look:", "Code block.", "Done."]


def test_code_that_never_ends_is_covered_by_a_last_silent_clause() -> None:
    text = "```\nx = 1\n"
    clauses = split(text)
    assert [clause.spoken for clause in clauses] == ["Code block.", ""]
    assert clauses[-1].raw_end == len(text)


def test_endless_words_without_punctuation_are_still_spoken_soon() -> None:
    splitter = ClauseSplitter()
    clauses = splitter.feed("word " * 200)
    assert len(clauses[0].spoken.split()) <= 20
    assert all(len(clause.spoken.split()) <= 45 for clause in clauses)
    assert sum(len(clause.spoken.split()) for clause in clauses) > 150


@pytest.mark.parametrize(
    ("written", "first"),
    [
        ("Cats purr because they ", "Cats purr"),
        ("The population of Japan is about ", "The population of Japan"),
        ("Photosynthesis is how ", "Photosynthesis"),
        ("I'm sorry for your ", "I'm sorry"),
        ("The Titanic sank on April ", "The Titanic sank"),
        ("Sure,", "Sure,"),
        ("当然，", "当然，"),
    ],
)
def test_the_first_clause_is_given_away_after_a_few_words(written: str, first: str) -> None:
    splitter = ClauseSplitter()
    assert [clause.spoken for clause in splitter.feed(written)] == [first]


@pytest.mark.parametrize(
    "written",
    [
        "I think that the ",
        "It is one of the ",
        "There are about 5 ",
        "What time is it ",
        "You should look for a ",
        "See example.com/a,b?c ",
        "He is not ",
        "This is a very ",
    ],
)
def test_the_first_clause_never_ends_where_a_word_leans_on_the_next(written: str) -> None:
    assert ClauseSplitter().feed(written) == []


def test_the_second_clause_comes_soon_after_a_first_of_one_word() -> None:
    clauses = spoken("Sure, I would like that a lot because it is warm and sunny there now.")
    assert clauses[:2] == ["Sure,", "I would like that a lot"]


def test_an_endless_word_is_cut_at_the_longest_clause() -> None:
    assert max(clause.raw_end - clause.raw_start for clause in split("x" * 2000)) <= MAX_CHARS
    assert len(split("好" * 500)[0].spoken) <= 40


def test_what_cannot_be_spoken_belongs_to_the_next_clause_or_ends_the_reply_silently() -> None:
    text = "😀 --- Hello there. 😀"
    clauses = split(text)
    assert [clause.spoken for clause in clauses] == ["Hello there.", ""]
    assert clauses[0].raw_start == 0
    assert clauses[1].word_ends == ()


def test_an_empty_reply_has_no_clauses() -> None:
    assert split("") == []


@pytest.mark.parametrize(
    "text", ["word " * 400, "a, b. " * 333, "x" * 2000, "你好，" * 660, "[" * 2000, "<think>" + "so " * 600]
)
def test_every_character_is_reworded_at_most_once_however_long_the_reply(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []

    def counted(raw: str, *, language: str, line_start: bool, line_end: bool) -> Spoken:
        lengths.append(len(raw))
        return speakable(raw, language=language, line_start=line_start, line_end=line_end)

    monkeypatch.setattr("app.tts.clauses.speakable", counted)
    split(text, list(range(0, len(text), 4)))
    assert sum(lengths) <= len(text)
    assert max(lengths, default=0) <= MAX_CHARS
