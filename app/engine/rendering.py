"""From a conversation to pieces of text: the chat template's own, and what people and programs said.

The template sees unguessable words instead of contents, so nothing that a user types can act on the
template, and what is template stays distinguishable from what is content.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.engine.ledger import CONTENT_MARK, TEMPLATE_MARK
from app.engine.messages import Message, ToolCall
from app.errors import InvalidRequest


class Render(Protocol):
    """A chat template: messages as transformers wants them, to text that ends where the assistant speaks. May raise."""

    def __call__(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, /) -> str: ...


Guard = Callable[[str], bool]
"""Whether a text has control tokens in it."""

_NONCHARACTERS = re.compile("[\ufdd0-\ufdef]")
_MISTRAL_ID = re.compile(r"[A-Za-z0-9]{9}")


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


def clean(text: str) -> str:
    """Without the characters that mark pieces in a ledger."""
    return _NONCHARACTERS.sub("\ufffd", text)


@dataclass(frozen=True, slots=True)
class Template:
    """``render`` None means that the model has none; ``bos`` then opens the text."""

    render: Render | None
    bos: str
    tool_format: str
    guard: Guard

    def apply(self, messages: Sequence[Message], tools: str) -> Rendering:
        """Raises InvalidRequest for an empty conversation or one that the template refuses."""
        if not messages:
            raise InvalidRequest("messages is empty: a reply needs at least one message", param="messages")
        if not self.tool_format and (tools or any(entry.role == "tool" or entry.tool_calls for entry in messages)):
            raise InvalidRequest(
                "this model's template knows no tools: leave out tools, tool calls and tool messages",
                param="tools" if tools else "messages",
            )
        merged = _merge(messages)
        if self.render is None:
            return _plain_rendering(merged, self.bos)
        refusal: Exception | None = None
        for variant in _variants(merged):
            words = _Words(self.guard)
            try:
                text = self._render(self.render, variant, tools, words)
            except InvalidRequest:
                raise
            except Exception as error:
                # Templates refuse what they do not know by raising whatever Jinja gives them.
                refusal = error
                continue
            pieces, complete = words.pieces(text)
            if complete:
                return Rendering(pieces)
        if refusal is not None:
            told = f"the model's chat template refuses this conversation: {refusal}"
            raise InvalidRequest(told, param="messages") from refusal
        return Rendering(pieces)

    def _render(self, render: Render, messages: Sequence[Message], tools: str, words: _Words) -> str:
        names: dict[str, str] = {}
        shown: list[dict[str, Any]] = []
        for message in messages:
            for call in message.tool_calls:
                names[call.id] = call.name
            shown.append(self._shown(message, names, words))
        if not tools:
            return render(shown)
        return render(shown, words.guarded(json.loads(tools)))

    def _shown(self, message: Message, names: dict[str, str], words: _Words) -> dict[str, Any]:
        if message.tool_calls:
            # Templates ask whether there is a content, and some have no place for one beside calls.
            content = words.word(message.content, must_appear=False) if message.content else ""
            calls = [self._call(call, words) for call in message.tool_calls]
            return {"role": message.role, "content": content, "tool_calls": calls}
        entry: dict[str, Any] = {"role": message.role, "content": words.word(message.content)}
        if message.role == "tool":
            entry["tool_call_id"] = self._id(message.tool_call_id)
            entry["name"] = words.guarded(names.get(message.tool_call_id, ""))
        return entry

    def _call(self, call: ToolCall, words: _Words) -> dict[str, Any]:
        try:
            arguments = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            told = f"the arguments of the call of {call.name} are not the JSON text of an object"
            raise InvalidRequest(told, param="messages")
        function = {"name": words.guarded(call.name), "arguments": words.guarded(arguments)}
        return {"id": self._id(call.id), "type": "function", "function": function}

    def _id(self, call_id: str) -> str:
        """Mistral's templates take only nine letters or digits; elsewhere ids rarely reach the prompt at all."""
        if self.tool_format == "mistral" and not _MISTRAL_ID.fullmatch(call_id):
            return hashlib.blake2b(call_id.encode("utf-8", "replace")).hexdigest()[:9]
        return "call" if self.guard(call_id) else clean(call_id)


class _Words:
    """The words that stand for contents while a template runs.

    A word has a quotation mark in it: where the template writes it into JSON, the mark comes out
    escaped, and the content must be escaped as often.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._nonce = secrets.token_hex(8)
        self._contents: list[str] = []
        self._must_appear: set[int] = set()

    def word(self, content: str, *, must_appear: bool = True) -> str:
        if must_appear:
            self._must_appear.add(len(self._contents))
        self._contents.append(content)
        return f'x{self._nonce}"n{len(self._contents) - 1}x'

    def guarded(self, value: Any) -> Any:
        """JSON data that templates look into: only texts that hold control tokens become words."""
        match value:
            case str():
                return self.word(clean(value), must_appear=False) if self._guard(value) else clean(value)
            case list():
                return [self.guarded(entry) for entry in value]
            case dict():
                return {self.guarded(key): self.guarded(entry) for key, entry in value.items()}
        return value

    def pieces(self, rendered: str) -> tuple[tuple[Piece, ...], bool]:
        """The text with the contents in their places, and whether each that must appear does."""
        pieces: list[Piece] = []
        found: set[int] = set()
        at = 0
        for match in re.finditer(rf'x{self._nonce}(\\*)"n(\d+)x', rendered):
            index = int(match[2])
            if match.start() > at:
                pieces.append(Piece(rendered[at : match.start()], is_template=True))
            content = self._contents[index]
            for _ in range((len(match[1]) + 1).bit_length() - 1):
                content = json.dumps(content, ensure_ascii=False)[1:-1]
            pieces.append(Piece(content, is_template=False))
            found.add(index)
            at = match.end()
        if at < len(rendered):
            pieces.append(Piece(rendered[at:], is_template=True))
        return tuple(pieces), found >= self._must_appear


def _merge(messages: Sequence[Message]) -> list[Message]:
    """One message where the same side speaks twice in a row: many templates refuse anything else."""
    merged: list[Message] = []
    for message in messages:
        content = clean(message.content)
        last = merged[-1] if merged else None
        if last is not None and last.role == message.role != "tool" and not (last.tool_calls or message.tool_calls):
            merged[-1] = Message(message.role, f"{last.content}\n{content}")
        else:
            merged.append(Message(message.role, content, message.tool_calls, message.tool_call_id))
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
