from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from app.engine.token_bytes import TokenBytes
from tests.kit.engine_world import byte_tokenizer

BYTE_LEVEL = byte_tokenizer()
BYTES_OF = TokenBytes(BYTE_LEVEL)


@settings(deadline=None)
@given(st.text())
def test_the_bytes_of_the_tokens_of_a_text_are_those_of_the_text(text: str) -> None:
    raw = [BYTES_OF(token) for token in BYTE_LEVEL.encode(text, add_special_tokens=False).ids]
    assert b"".join(raw) == text.encode()
    assert all(len(one) == 1 for one in raw)


def test_a_real_vocabulary_gives_its_bytes_too(smollm2: Path) -> None:
    tokenizer = Tokenizer.from_file(str(smollm2 / "tokenizer.json"))
    bytes_of = TokenBytes(tokenizer)
    text = " Grüße 😀, 旧 and\n\tcafé"
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert b"".join(map(bytes_of, ids)) == text.encode()
    assert any("\ufffd" in tokenizer.decode([token]) for token in ids), "some are parts of characters"


def test_control_tokens_and_ids_without_a_token_are_no_bytes_and_added_words_are_themselves() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens([AddedToken("<tool>é", special=False)])
    bytes_of = TokenBytes(tokenizer)
    assert bytes_of(tokenizer.token_to_id("<|im_end|>")) == b""
    assert bytes_of(1 << 20) == b""
    assert bytes_of(tokenizer.token_to_id("<tool>é")) == "<tool>é".encode()


def test_a_vocabulary_that_falls_back_to_bytes_gives_them_and_its_spaces() -> None:
    pieces = {"<unk>": 0, "▁hi": 1, "<0xE2>": 2, "<0x0A>": 3, "é": 4}
    for decoder in (
        decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]),
        decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]),
    ):
        tokenizer = Tokenizer(BPE(pieces, [], byte_fallback=True, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoder
        assert [TokenBytes(tokenizer)(token) for token in range(1, 5)] == [b" hi", b"\xe2", b"\n", "é".encode()]
