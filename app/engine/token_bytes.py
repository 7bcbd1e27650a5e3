"""The bytes that a token stands for: a character may be spread over several tokens, none of which is text alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tokenizers import Tokenizer

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class TokenBytes:
    """Reads a vocabulary's own spelling, byte-level or with fallback to bytes. Safe to use from several threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        decoders = list(_flat(json.loads(tokenizer.to_str())["decoder"]))
        types = {decoder["type"] for decoder in decoders}
        self._tokenizer = tokenizer
        self._added = {
            token: b"" if added.special else added.content.encode()
            for token, added in tokenizer.get_added_tokens_decoder().items()
        }
        self._alphabet = _byte_alphabet() if "ByteLevel" in types else None
        self._falls_back = "ByteFallback" in types
        self._spaces = [space for decoder in decoders if (space := _space(decoder))]

    def __call__(self, token: int) -> bytes:
        """Nothing for a control token that is not shown, nor for an id that names no token."""
        added = self._added.get(token)
        piece = self._tokenizer.id_to_token(token) if added is None else None
        if piece is None:
            return added or b""
        if self._alphabet is not None:
            return b"".join(self._alphabet.get(char) or char.encode() for char in piece)
        if self._falls_back and (byte := _BYTE.fullmatch(piece)):
            return bytes.fromhex(byte[1])
        for space in self._spaces:
            piece = piece.replace(space, " ")
        return piece.encode("utf-8", "replace")


def _flat(decoder: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if decoder is not None:
        yield decoder
        for part in decoder.get("decoders", ()):
            yield from _flat(part)


def _space(decoder: dict[str, Any]) -> str:
    """The sign that a decoder turns into a space; "" if it does no such thing."""
    if decoder["type"] == "Metaspace":
        return str(decoder["replacement"])
    if decoder["type"] == "Replace" and decoder["content"] == " ":
        return str(decoder["pattern"].get("String", ""))
    return ""


def _byte_alphabet() -> dict[str, bytes]:
    """Byte-level vocabularies write a byte as the character of that number if it can be seen, the others from 256 on."""
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = (byte for byte in range(256) if byte not in seen)
    return {chr(byte): bytes([byte]) for byte in seen} | {
        chr(256 + at): bytes([byte]) for at, byte in enumerate(hidden)
    }
