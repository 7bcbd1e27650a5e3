"""From a conversation to token ids: chat templates, plain prompts, and tokenising only what a session does not know yet."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from tokenizers import Tokenizer

from app.engine.ledger import Ledger, piece_ends
from app.engine.messages import Message
from app.engine.rendering import Piece, Render, Rendering, Template, clean
from app.engine.token_bytes import TokenBytes
from app.errors import ContextOverflow, InvalidRequest

IDS_MARK = "\ufdd2"
"""Begins the record of a prompt that came as token ids; a noncharacter, as the ledger's other marks."""

_USUAL_CHARS = 8
"""A text with more characters for each token that there is room for is counted before it is tokenised."""
_SLICE_CHARS = 16 * 1024
_MORE_BY_A_CUT = 64
"""Tokens that cutting a text may add, at the very most."""


class Vocabulary:
    """The tokeniser, once with control tokens and once without. Safe to use from several threads."""

    def __init__(self, tokenizer: Tokenizer, *, shown: frozenset[str] = frozenset()) -> None:
        """``shown`` are control tokens that stay in decoded text, such as those around tool calls."""
        self._template = _showing(tokenizer, shown)
        self._template.no_padding()
        self._template.no_truncation()
        self._template.encode_special_tokens = False
        self._content = _without_control_tokens(self._template)
        self.bytes_of = TokenBytes(self._template)
        self.size = self._template.get_vocab_size(with_added_tokens=True)
        controls = sorted(_control_tokens(self._template), key=len, reverse=True)
        self._controls = re.compile("|".join(re.escape(token) for token in controls) or r"(?!)")

    def encode(self, piece_text: str, *, is_template: bool, limit: int | None = None) -> tuple[list[int], list[int]]:
        """Ids, and for each the end of the characters it touches. Raises ContextOverflow for more than ``limit``.

        Others wait to be tokenised meanwhile, and turning the encoding into Python objects holds up even other
        threads: so what is too long is refused as early as it shows.
        """
        tokenizer = self._template if is_template else self._content
        if limit is not None and len(piece_text) > _USUAL_CHARS * limit and _surpasses(tokenizer, piece_text, limit):
            raise ContextOverflow(
                f"one message has {len(piece_text)} characters, which make more than the {limit} tokens that the "
                "context still has room for (llm.context_tokens): shorten it"
            )
        # The batch call lets other threads run while it works; the single one keeps the interpreter to itself.
        encoding = tokenizer.encode_batch([piece_text], add_special_tokens=False)[0]
        if limit is not None and len(encoding) > limit:
            raise ContextOverflow(
                f"one message has {len(encoding)} tokens, more than the {limit} that the context still "
                "has room for (llm.context_tokens): shorten it"
            )
        return encoding.ids, piece_ends(encoding.offsets, len(piece_text))

    def has_controls(self, text: str) -> bool:
        """Whether control tokens would be found in ``text`` if it were part of a template."""
        return self._controls.search(text) is not None

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._template.decode(list(ids), skip_special_tokens=True)
        return text


class PromptBuilder:
    """Renders conversations with one model's template. Safe to use from several threads."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        render: Render | None,
        *,
        bos: str = "",
        context_tokens: int | None = None,
        tool_format: str = "",
    ) -> None:
        """``render`` None means that the model has no template; ``bos`` opens plain text.

        ``tool_format`` is that of the template (see tools.py); "" if it takes no tools.
        """
        self.vocabulary = vocabulary
        self.tool_format = tool_format
        self._context_tokens = context_tokens
        self._bos = bos
        self._template = Template(render, bos, tool_format, vocabulary.has_controls)

    def build(
        self,
        messages: Sequence[Message],
        ledger: Ledger,
        *,
        tools: str = "",
        prompt: str | tuple[int, ...] | None = None,
    ) -> tuple[Ledger, tuple[str, ...]]:
        """The prompt as a ledger that keeps every id that still holds, and the template's stop strings.

        A ``prompt`` takes the place of ``messages``. Raises InvalidRequest and ContextOverflow.
        """
        if isinstance(prompt, tuple):
            return self._from_ids(prompt), ()
        rendering = self.render(messages, tools) if prompt is None else self._plain(prompt)
        return self.tokenise(rendering, ledger), rendering.stops

    def render(self, messages: Sequence[Message], tools: str = "") -> Rendering:
        """Raises InvalidRequest for an empty conversation or one that the template refuses."""
        return self._template.apply(messages, tools)

    def _plain(self, prompt: str) -> Rendering:
        """Text to continue. Control tokens in it are meant: whoever sends it may have applied a template of theirs."""
        text = clean(prompt)
        if not text.startswith(self._bos):
            text = self._bos + text
        if not text:
            raise InvalidRequest("prompt is empty: there is nothing to continue", param="prompt")
        return Rendering((Piece(text, is_template=True),))

    def _from_ids(self, ids: tuple[int, ...]) -> Ledger:
        if not ids:
            raise InvalidRequest("prompt is empty: there is nothing to continue", param="prompt")
        if self._context_tokens is not None and len(ids) > self._context_tokens:
            raise ContextOverflow(
                f"the prompt has {len(ids)} tokens, more than the context of {self._context_tokens} "
                "(llm.context_tokens): shorten it"
            )
        unknown = next((token for token in ids if not 0 <= token < self.vocabulary.size), None)
        if unknown is not None:
            told = f"prompt: {unknown} is no token id, they go from 0 to {self.vocabulary.size - 1}"
            raise InvalidRequest(told, param="prompt")
        words = [f"{token}," for token in ids]
        ends: list[int] = []
        end = len(IDS_MARK)
        for word in words:
            end += len(word)
            ends.append(end)
        return Ledger(IDS_MARK + "".join(words), ids, tuple(ends))

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


def _surpasses(tokenizer: Tokenizer, text: str, limit: int) -> bool:
    """Whether the text surely has more than ``limit`` tokens: counted slice by slice, and no further than need be."""
    start = count = 0
    while start < len(text):
        end = start + _SLICE_CHARS
        if end < len(text):
            # Before the last white space, where a token is hardly ever cut in two; but slices must not become tiny.
            half = start + _SLICE_CHARS // 2
            found = max(text.rfind(" ", half, end), text.rfind("\n", half, end))
            end = end if found < 0 else found
        count += len(tokenizer.encode_batch([text[start:end]], add_special_tokens=False)[0]) - _MORE_BY_A_CUT
        if count > limit:
            return True
        start = end
    return False


def _showing(tokenizer: Tokenizer, shown: frozenset[str]) -> Tokenizer:
    """A copy that treats these tokens as text when it decodes."""
    description = json.loads(tokenizer.to_str())
    for token in description["added_tokens"]:
        token["special"] = token["special"] and token["content"] not in shown
    return Tokenizer.from_str(json.dumps(description))


def _control_tokens(tokenizer: Tokenizer) -> set[str]:
    added = tokenizer.get_added_tokens_decoder().values()
    return {token.content for token in added if token.special or _looks_like_markup(token.content)}


def _without_control_tokens(tokenizer: Tokenizer) -> Tokenizer:
    """A copy for which "<|im_end|>" is eleven characters and nothing else.

    ``encode_special_tokens`` covers the tokens flagged special; added tokens that look like markup
    ("<think>", "[INST]") but lack the flag are taken out of the copy.
    """
    description = json.loads(tokenizer.to_str())
    controls = _control_tokens(tokenizer)
    description["added_tokens"] = [token for token in description["added_tokens"] if token["content"] not in controls]
    try:
        copy = Tokenizer.from_str(json.dumps(description))
    except Exception:
        # A post-processor or model may insist on a token that was taken out; the flag alone must do then.
        copy = Tokenizer.from_str(tokenizer.to_str())
    copy.encode_special_tokens = True
    return copy


def _looks_like_markup(content: str) -> bool:
    return len(content) > 1 and content[0] in "<[" and content[-1] in ">]"
