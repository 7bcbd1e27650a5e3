"""How much of a conversation the model is shown, when its beginning has to leave, and what stays in its place.

Pure: token counts in, indices out. ``summary.py`` lets the model write the summary itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

_MESSAGE_TOKENS = 8
"""What a chat template puts around a message, generously; most use four to seven."""

_BYTES_PER_TOKEN_ASCII = 4.0
_BYTES_PER_TOKEN_OTHER = 2.0
"""UTF-8 bytes beyond ASCII, where a character of Chinese is three. Their relation matters; ``scale`` does the rest."""

_MARGIN = 0.04
"""Of the context, kept free for what the estimate has wrong."""

_LOWEST_SCALE, _HIGHEST_SCALE = 0.3, 4.0

_LEFT_OUT = "[Part of the earlier conversation has been left out here.]"


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens that a conversation may take."""

    context_tokens: int = 4096
    """Longest prompt and reply together."""
    reply_tokens: int = 160
    """Kept free for the reply."""
    summarise_at: float = 0.75
    """Share of ``room`` from which a summary of the oldest turns is written."""

    @property
    def room(self) -> int:
        """Longest prompt."""
        return max(1, int(self.context_tokens * (1.0 - _MARGIN)) - self.reply_tokens)

    @property
    def summarise_from(self) -> int:
        """Prompts longer than this make a summary due: early, so that it is ready before it is needed."""
        return int(self.room * self.summarise_at)

    @property
    def aim(self) -> int:
        """What a prompt is cut to. Far below the mark, so that cuts are rare and the turns between them find their
        prefix computed."""
        return self.summarise_from // 2

    @property
    def summary_tokens(self) -> int:
        """Longest summary."""
        return max(24, min(256, self.room // 6))

    def refused(self, prompt_tokens: int) -> Budget:
        """After a prompt of about this length was too long: the context is smaller than it was thought to be."""
        return replace(self, context_tokens=min(self.context_tokens, prompt_tokens + self.reply_tokens))


@dataclass(frozen=True, slots=True)
class TokenGauge:
    """Estimates tokens from text, with the model's own count of the last prompt as its measure."""

    scale: float = 1.2
    """Starts a little high: until the first reply nothing is known of the tokeniser."""
    measured: bool = False

    def tokens(self, text: str) -> int:
        """Of one message with this text, its template included."""
        return math.ceil(self.scale * _weight(text)) + _MESSAGE_TOKENS

    def calibrated(self, texts: Sequence[str], prompt_tokens: int) -> TokenGauge:
        """Once a prompt of messages with ``texts`` is known to have been ``prompt_tokens`` long; 0 is unknown."""
        weight = sum(map(_weight, texts))
        if prompt_tokens <= 0 or weight <= 0:
            return self
        scale = (prompt_tokens - _MESSAGE_TOKENS * len(texts)) / weight
        return TokenGauge(min(_HIGHEST_SCALE, max(_LOWEST_SCALE, scale)), measured=True)

    def refused(self) -> TokenGauge:
        """After a prompt that seemed to fit was too long, and nothing was measured yet."""
        return replace(self, scale=min(_HIGHEST_SCALE, 1.5 * self.scale))


@dataclass(frozen=True, slots=True)
class Entry:
    """A message as far as it matters here. Pinned ones stay whatever happens."""

    role: Literal["user", "assistant"]
    tokens: int
    pinned: bool = False


def prompt_tokens(entries: Sequence[Entry], start: int, fixed_tokens: int) -> int:
    """Of a prompt with the pinned messages and all from ``start`` on; ``fixed_tokens`` is the system message."""
    shown = (entry.tokens for index, entry in enumerate(entries) if index >= start or entry.pinned)
    return fixed_tokens + sum(shown)


def cut(entries: Sequence[Entry], start: int, fixed_tokens: int, *, aim: int, room: int) -> int:
    """The index, at least ``start``, from which on messages stay in the prompt.

    The first beginning of a turn from which the prompt is at most ``aim`` tokens; or the last such beginning if
    that is at most ``room``; or, where the user spoke many times without an answer, a message among those. The last
    message of the user and what follows it always stay, so ``room`` is kept to unless they and the pinned ones alone
    are longer.
    """
    last = max(start, max((index for index, entry in enumerate(entries) if entry.role == "user"), default=start))
    leaving = (0 if entry.pinned else -entry.tokens for entry in entries[start:last])
    lengths = dict(enumerate(accumulate(leaving, initial=prompt_tokens(entries, start, fixed_tokens)), start))
    turns = [start, *(index for index in range(start + 1, last + 1) if begins_turn(entries, index))]
    for index in turns:
        if lengths[index] <= aim:
            return index
    if lengths[turns[-1]] <= room:
        return turns[-1]
    return next((index for index in range(turns[-1], last) if lengths[index] <= room), last)


def begins_turn(entries: Sequence[Entry], index: int) -> bool:
    """Whether the user speaks at ``index``, after the assistant."""
    return entries[index].role == "user" and (index == 0 or entries[index - 1].role != "user")


def turns_before(entries: Sequence[Entry], start: int) -> int:
    """How many turns of the user a prompt from ``start`` on leaves out."""
    return sum(entry.role == "user" and not entry.pinned for entry in entries[:start])


def system_text(system_prompt: str, summary: str, *, left_out: bool) -> str:
    """The system message: the prompt first and the summary after it, so that it stays the same until the next cut."""
    parts = (
        system_prompt,
        f"Summary of the conversation so far: {summary}" if summary else "",
        _LEFT_OUT if left_out else "",
    )
    return "\n\n".join(part for part in parts if part)


def _weight(text: str) -> float:
    other = len(text.encode("utf-8", "replace")) - len(text)
    plain = len(text) if not other else sum(character < "\x80" for character in text)
    foreign = len(text) - plain + other
    return plain / _BYTES_PER_TOKEN_ASCII + foreign / _BYTES_PER_TOKEN_OTHER
