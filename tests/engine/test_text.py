from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from app.engine.prompt import Vocabulary
from app.engine.text import Detokeniser, LoopGuard, ReplyText, StopFilter
from tests.kit.engine_world import byte_tokenizer

VOCABULARY = Vocabulary(byte_tokenizer())


def alphabet_bytes() -> dict[str, int]:
    """GPT-2's table: printable bytes stand for themselves, the others for characters from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(others)}


VOCABULARY_BYTES = alphabet_bytes()
BYTE_IDS = {
    VOCABULARY_BYTES[character]: index for index, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))
}
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


def byte_fallback() -> Vocabulary:
    """A SentencePiece vocabulary as Llama 2 has it: words after a mark for the space, and bytes for all else."""
    words = ["\u2581", "\u2581the", "\u2581end", "a", "b", ".", "ok"]
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    tokenizer = Tokenizer(BPE({piece: index for index, piece in enumerate(pieces)}, [], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return Vocabulary(tokenizer)


def fallback_ids(vocabulary: Vocabulary, text: str) -> list[int]:
    known = {"the": 258, "end": 259, "a": 260, "b": 261, ".": 262, "ok": 263}
    ids: list[int] = []
    for word in text.split(" "):
        if f"{word}" in ("the", "end"):
            ids.append(known[word])
            continue
        ids.append(257)
        for character in word:
            ids += [known[character]] if character in known else [1 + byte for byte in character.encode()]
    return ids


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(["the", "end", "a", "b", "ab.", "漢", "한국", "😀", "👩\u200d👧", "é"]), min_size=1, max_size=12
    )
)
def test_a_vocabulary_that_falls_back_to_bytes_joins_too(words: list[str]) -> None:
    vocabulary = byte_fallback()
    text = " ".join(words)
    ids = fallback_ids(vocabulary, text)
    assert vocabulary.decode(ids) == text
    detokeniser = Detokeniser(vocabulary.decode)
    pieces = [detokeniser.push(token) for token in ids]
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.integers(0, 255), st.sampled_from(list("😀한 ".encode()))), max_size=120))
def test_any_bytes_join_to_what_decoding_them_at_once_gives(data: list[int]) -> None:
    ids = [BYTE_IDS[byte] for byte in data] + VOCABULARY.encode(" end", is_template=False)[0]
    detokeniser = Detokeniser(VOCABULARY.decode)
    assert "".join(detokeniser.push(token) for token in ids) == VOCABULARY.decode(ids)
    assert detokeniser.ends == sorted(detokeniser.ends)


@pytest.mark.parametrize(
    "text",
    [
        "한국어로 말해 👩‍👩‍👧‍👦!",
        "漢字かな交じり文。",
        "naïve café — “quoted” ☃",
        "emoji 😀😃😄 end",
        "  spaces\n\n\ttabs  ",
    ],
)
def test_the_default_models_tokens_join_to_the_text_wherever_the_reply_is_cut(text: str, smollm2: Path) -> None:
    vocabulary = Vocabulary(Tokenizer.from_file(str(smollm2 / "tokenizer.json")))
    ids, _ = vocabulary.encode(text, is_template=False)
    for length in range(len(ids) + 1):
        reply = ReplyText(vocabulary.decode, ["never"], guard_loops=True)
        shown = "".join(reply.push(token) for token in ids[:length]) + reply.finish()
        assert shown == vocabulary.decode(ids[:length]).rstrip("\ufffd")
    assert shown == text


def test_a_character_after_long_rubbish_is_still_whole() -> None:
    ids = [BYTE_IDS[0xFF]] * 300 + VOCABULARY.encode("😀한", is_template=False)[0]
    detokeniser = Detokeniser(VOCABULARY.decode)
    assert "".join(detokeniser.push(token) for token in ids) == "\ufffd" * 300 + "😀한"


STREAMS = {
    "letters": "hello world ",
    "characters of several bytes": "한a😀b",
    "rubbish": "\ufffd",
    "tokens without text": "<|im_end|>",
}


@pytest.mark.parametrize("stream", STREAMS)
def test_a_token_costs_the_same_however_long_the_reply_is(stream: str) -> None:
    decoded = 0

    def decode(ids: Sequence[int]) -> str:
        nonlocal decoded
        decoded += len(ids)
        return VOCABULARY.decode(ids)

    if stream == "rubbish":
        ids = [BYTE_IDS[0xFF]] * 8000
    else:
        ids = (VOCABULARY.encode(STREAMS[stream] * 8000, is_template=stream.startswith("tokens"))[0])[:8000]
    detokeniser = Detokeniser(decode)
    costs: list[int] = []
    for token in ids:
        before = decoded
        detokeniser.push(token)
        costs.append(decoded - before)
    assert max(costs) < 100
    assert sum(costs[4000:]) < 1.1 * sum(costs[:4000])


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


STOPS = ["STOP", "\n\n", "User:", "User says", "停止"]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_a_stop_string_across_several_tokens_is_neither_shown_nor_takes_text_along(stop: str, parts: int) -> None:
    dice = random.Random(parts)
    for _ in range(20):
        cuts = sorted(dice.choices(range(len(stop) + 1), k=parts - 1))
        pieces = [stop[start:end] for start, end in zip([0, *cuts], [*cuts, len(stop)], strict=True)]
        stop_filter = StopFilter(STOPS)
        shown = [stop_filter.push(piece) for piece in ["before S", *pieces, "after"]]
        assert "".join(shown) == "before S"
        assert stop_filter.hit


def test_of_overlapping_stops_the_first_to_be_complete_wins_and_of_equals_the_longest() -> None:
    for text, stops, expected in (
        ("xabcd", ["abcd", "bc"], "xa"),
        ("xabc", ["abc", "bc"], "x"),
        ("aaab", ["aab"], "a"),
        ("ababac", ["abac"], "ab"),
    ):
        for pieces in ([text], list(text)):
            stop_filter = StopFilter(stops)
            assert "".join(stop_filter.push(piece) for piece in pieces) == expected
            assert stop_filter.hit


def test_what_was_held_back_is_shown_where_the_reply_ends_without_a_stop() -> None:
    ids, _ = VOCABULARY.encode("so far\nUse", is_template=False)
    reply = ReplyText(VOCABULARY.decode, ["\nUser:"], guard_loops=False)
    assert "".join(reply.push(token) for token in ids) == "so far"
    assert reply.finish() == "\nUse"
    assert reply.finish() == ""


def test_a_stop_string_in_the_reply_s_last_token_still_counts() -> None:
    ids, _ = VOCABULARY.encode("so far\nUser:", is_template=False)
    reply = ReplyText(VOCABULARY.decode, ["\nUser:"], guard_loops=False)
    shown = "".join(reply.push(token) for token in ids) + reply.finish()
    assert reply.stopped
    assert shown == "so far"
    assert reply.text == "so far\nUser:"
    assert len(reply.ends) == len(ids)


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


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 40), st.integers(1, 5), st.lists(st.integers(0, 5), max_size=80), st.integers(0, 300))
def test_the_guard_keeps_its_rule(period: int, kinds: int, before: list[int], repeated: int) -> None:
    """Against the rule as it reads: each period of up to 32 tokens looked at after each token."""
    group = [number % kinds for number in range(period)]
    ids = [*before, *(group[number % period] for number in range(repeated))]

    def expected() -> int | None:
        runs = [0] * (LoopGuard.MAX_PERIOD + 1)
        for at, token in enumerate(ids):
            for length in range(1, min(LoopGuard.MAX_PERIOD, at) + 1):
                runs[length] = runs[length] + 1 if ids[at - length] == token else 0
                if runs[length] >= max(LoopGuard.REPEATS * length, LoopGuard.MIN_REPEATED):
                    return at
        return None

    guard = LoopGuard()
    assert next((at for at, token in enumerate(ids) if guard.push(token)), None) == expected()
