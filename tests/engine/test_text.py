from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.prompt import Vocabulary
from app.engine.text import Detokeniser, LoopGuard, ReplyText, StopFilter
from tests.kit.engine_world import byte_tokenizer

VOCABULARY = Vocabulary(byte_tokenizer())
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd"), max_size=60)


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_pieces_join_to_the_whole_text_and_never_show_half_a_character(text: str) -> None:
    ids, _ = VOCABULARY.encode(text, is_template=False)
    detokeniser = Detokeniser(VOCABULARY.decode)
    pieces = [detokeniser.push(token) for token in ids]
    assert "".join(pieces) == text
    assert detokeniser.ends == sorted(detokeniser.ends)


@pytest.mark.parametrize("text", ["한국어 말", "漢字かな", "👩‍👩‍👧‍👦 ok", "naïve"])
def test_a_reply_cut_inside_a_character_shows_only_whole_ones(text: str) -> None:
    ids, _ = VOCABULARY.encode(text, is_template=False)
    for length in range(len(ids) + 1):
        reply = ReplyText(VOCABULARY.decode, (), guard_loops=False)
        shown = "".join(reply.push(token) for token in ids[:length]) + reply.finish()
        assert text.startswith(shown)
        assert "\ufffd" not in shown
        assert len(shown.encode()) > length - 4


def test_detokenising_takes_linear_time() -> None:
    def seconds(count: int) -> float:
        ids, _ = VOCABULARY.encode("한a😀b" * (count // 9 + 1), is_template=False)
        detokeniser = Detokeniser(VOCABULARY.decode)
        began = time.process_time()
        for token in ids[:count]:
            detokeniser.push(token)
        return time.process_time() - began

    seconds(500)
    assert seconds(8000) < 12 * max(seconds(1000), 0.002)


@settings(max_examples=300, deadline=None)
@given(
    st.text("abc", max_size=30),
    st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.integers(1, 4), max_size=30),
)
def test_stop_strings_cut_the_same_however_the_text_arrives(text: str, stops: list[str], sizes: list[int]) -> None:
    def shown(pieces: list[str]) -> tuple[str, bool]:
        stop_filter = StopFilter(stops)
        out = "".join(stop_filter.push(piece) for piece in pieces)
        return out + ("" if stop_filter.hit else stop_filter.flush()), stop_filter.hit

    pieces, rest = [], text
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    result, hit = shown([*pieces, rest])
    assert (result, hit) == shown(list(text))
    assert not any(stop in result for stop in stops)
    assert hit == any(stop in text for stop in stops)
    assert text.startswith(result)
    if not hit:
        assert result == text


def test_only_what_could_become_a_stop_string_is_held_back() -> None:
    stop_filter = StopFilter(["\nUser:"])
    assert stop_filter.push("fine\nUs") == "fine"
    assert stop_filter.push("ual") == "\nUsual"
    assert stop_filter.flush() == ""


def test_a_reply_that_repeats_itself_is_noticed_and_others_are_not() -> None:
    guard = LoopGuard()
    assert not any(guard.push(token) for token in [1, 2, 3, 4, 5, 6, 7] * 4)
    looping = LoopGuard()
    assert any(looping.push(token) for token in [1, 2, 3, 4, 5, 6, 7] * 8)
    varied = LoopGuard()
    assert not any(varied.push(token * token % 97) for token in range(400))
