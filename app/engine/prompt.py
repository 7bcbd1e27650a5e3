"""From a conversation to token ids: chat templates, and tokenising only what a session does not know yet."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tokenizers import Tokenizer

from app.engine.ledger import CONTENT_MARK, TEMPLATE_MARK, Ledger, piece_ends
from app.engine.messages import Message
from app.errors import ContextOverflow, InvalidRequest

Render = Callable[[list[dict[str, str]]], str]
"""A chat template: messages with role and content to text, ending where the assistant speaks. May raise."""

_NONCHARACTERS = re.compile("[\ufdd0-\ufdef]")


@dataclass(frozen=True, slots=True)
class Piece:
    """Either a stretch of the template, where control tokens are meant, or a content, where they are plain text."""

    text: str
    is_template: bool

    @property
    def marked(self) -> str:
        return (TEMPLATE_MARK if self.is_template else CONTENT_MARK) + self.text


@dataclass(frozen=True, slots=True)
class Rendering:
    pieces: tuple[Piece, ...]
    stops: tuple[str, ...] = ()
    """Stop strings that the template itself calls for."""
    text: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", "".join(piece.marked for piece in self.pieces))


class Vocabulary:
    """The tokeniser, once with control tokens and once without. Safe to use from several threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._template = Tokenizer.from_str(tokenizer.to_str())
        self._template.no_padding()
        self._template.no_truncation()
        self._template.encode_special_tokens = False
        self._content = _without_control_tokens(self._template)

    def encode(self, piece_text: str, *, is_template: bool, limit: int | None = None) -> tuple[list[int], list[int]]:
        """Ids, and for each the end of the characters it touches. Raises ContextOverflow for more than ``limit``.

        Turning the encoding into Python objects holds up other threads, so what is too long is refused before.
        """
        tokenizer = self._template if is_template else self._content
        # The batch call lets other threads run while it works; the single one keeps the interpreter to itself.
        encoding = tokenizer.encode_batch([piece_text], add_special_tokens=False)[0]
        if limit is not None and len(encoding) > limit:
            raise ContextOverflow(
                f"one message has {len(encoding)} tokens, more than the {limit} that the context still "
                "has room for (llm.context_tokens): shorten it"
            )
        return encoding.ids, piece_ends(encoding.offsets, len(piece_text))

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._template.decode(list(ids), skip_special_tokens=True)
        return text


class PromptBuilder:
    """Renders conversations with one model's template. Safe to use from several threads."""

    def __init__(
        self, vocabulary: Vocabulary, render: Render | None, *, bos: str = "", context_tokens: int | None = None
    ) -> None:
        """``render`` None means that the model has no template; ``bos`` then opens the text."""
        self.vocabulary = vocabulary
        self._context_tokens = context_tokens
        self._render = render
        self._bos = bos

    def build(self, messages: Sequence[Message], ledger: Ledger) -> tuple[Ledger, tuple[str, ...]]:
        """The prompt as a ledger that keeps every id that still holds, and the template's stop strings."""
        rendering = self.render(messages)
        return self.tokenise(rendering, ledger), rendering.stops

    def render(self, messages: Sequence[Message]) -> Rendering:
        """Raises InvalidRequest for an empty conversation or one that the template refuses."""
        if not messages:
            raise InvalidRequest("messages is empty: a reply needs at least one message")
        merged = _merge(messages)
        if self._render is None:
            return _plain_rendering(merged, self._bos)
        refusal: Exception | None = None
        for variant in _variants(merged):
            try:
                pieces, complete = _render_pieces(self._render, variant)
            except Exception as error:
                # Templates refuse what they do not know by raising whatever Jinja gives them.
                refusal = error
                continue
            if complete:
                return Rendering(pieces)
        if refusal is not None:
            raise InvalidRequest(f"the model's chat template refuses this conversation: {refusal}") from refusal
        return Rendering(pieces)

    def tokenise(self, rendering: Rendering, ledger: Ledger) -> Ledger:
        """Raises ContextOverflow as soon as the prompt is longer than the context."""
        kept = ledger.agreement(rendering.text)
        cut = ledger.cut_offset(kept)
        ids, ends = list(ledger.ids[:kept]), list(ledger.ends[:kept])
        start = 0
        for piece in rendering.pieces:
            body = start + 1
            start = body + len(piece.text)
            if start <= cut:
                continue
            skip = max(0, cut - body)
            room = None if self._context_tokens is None else self._context_tokens - len(ids)
            new_ids, new_ends = self.vocabulary.encode(piece.text[skip:], is_template=piece.is_template, limit=room)
            ids += new_ids
            ends += [body + skip + end for end in new_ends]
        return Ledger(rendering.text, tuple(ids), tuple(ends))


def _without_control_tokens(tokenizer: Tokenizer) -> Tokenizer:
    """A copy for which "<|im_end|>" is eleven characters and nothing else.

    ``encode_special_tokens`` covers the tokens flagged special; added tokens that look like markup
    ("<think>", "[INST]") but lack the flag are taken out of the copy.
    """
    description = json.loads(tokenizer.to_str())
    description["added_tokens"] = [
        token for token in description["added_tokens"] if not (token["special"] or _looks_like_markup(token["content"]))
    ]
    try:
        copy = Tokenizer.from_str(json.dumps(description))
    except Exception:
        # A post-processor or model may insist on a token that was taken out; the flag alone must do then.
        copy = Tokenizer.from_str(tokenizer.to_str())
    copy.encode_special_tokens = True
    return copy


def _looks_like_markup(content: str) -> bool:
    return len(content) > 1 and content[0] in "<[" and content[-1] in ">]"


def _merge(messages: Sequence[Message]) -> list[Message]:
    """One message where the same side speaks twice in a row: many templates refuse anything else."""
    merged: list[Message] = []
    for message in messages:
        clean = _NONCHARACTERS.sub("\ufffd", message.content)
        if merged and merged[-1].role == message.role:
            merged[-1] = Message(message.role, f"{merged[-1].content}\n{clean}")
        else:
            merged.append(Message(message.role, clean))
    return merged


def _variants(messages: list[Message]) -> list[list[Message]]:
    """The conversation as it is, then as templates without a system role, or that want the user first, take it."""
    variants = [messages]
    folded = messages
    if messages[0].role == "system":
        rest = messages[1:]
        if rest and rest[0].role == "user":
            folded = [Message("user", f"{messages[0].content}\n\n{rest[0].content}"), *rest[1:]]
        else:
            folded = [Message("user", messages[0].content), *rest]
        variants.append(folded)
    elif messages[0].role == "assistant":
        variants.append([Message("user", "Hello."), *messages])
    return variants


def _render_pieces(render: Render, messages: Sequence[Message]) -> tuple[tuple[Piece, ...], bool]:
    """Pieces, and whether every content found its place.

    The template sees unguessable words instead of the contents, so nothing that a user types can
    act on the template, and what is template stays distinguishable from what is content.
    """
    nonce = secrets.token_hex(8)
    contents = {f"x{nonce}n{index}x": message.content for index, message in enumerate(messages)}
    rendered = render(
        [{"role": message.role, "content": word} for word, message in zip(contents, messages, strict=True)]
    )
    pieces: list[Piece] = []
    found: set[str] = set()
    for part in re.split(f"(x{nonce}n\\d+x)", rendered):
        if part in contents:
            found.add(part)
            pieces.append(Piece(contents[part], is_template=False))
        elif part:
            pieces.append(Piece(part, is_template=True))
    return tuple(pieces), len(found) == len(contents)


def _plain_rendering(messages: Sequence[Message], bos: str) -> Rendering:
    """For models that were never taught a chat format."""
    names = {"system": "System", "user": "User", "assistant": "Assistant"}
    pieces: list[Piece] = []
    opening = bos
    for message in messages:
        pieces.append(Piece(f"{opening}{names[message.role]}: ", is_template=True))
        pieces.append(Piece(message.content, is_template=False))
        opening = "\n"
    pieces.append(Piece(f"{opening}Assistant:", is_template=True))
    return Rendering(tuple(pieces), stops=("\nUser:", "\nSystem:"))
