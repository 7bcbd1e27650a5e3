"""The running summary of a conversation's beginning, written by the model itself when nobody waits for it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

from app.errors import StageError, StageTimeout
from app.llm.base import ChatMessage, Finished, GenerateRequest, LanguageModel, Sampling, TextDelta
from app.llm.memory import TokenGauge

_SYSTEM = "You sum up conversations."
_TASK = (
    "Sum it up in up to four sentences, with all names, places, facts, wishes and decisions, in its language. "
    "Write only the summary."
)
"""After the text and not before it: small models forget what they were told before a long text."""
_NAMES = {"user": "User", "assistant": "Assistant"}
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|[。！？]")


@dataclass(frozen=True, slots=True)
class Notes:
    """What to summarise: the summary so far, then the messages that it does not know yet."""

    summary: str
    messages: tuple[ChatMessage, ...]


async def write_summary(
    model: LanguageModel, notes: Notes, gauge: TokenGauge, *, room: int, summary_tokens: int, deadline_s: float
) -> str:
    """A summary of at most ``summary_tokens``, from a prompt of at most about ``room`` tokens.

    Asked for at low priority and without a session, so that it neither delays a turn nor displaces one's keys and
    values. Raises StageError if the model fails, is late, or has nothing to say.
    """
    request = GenerateRequest(
        _prompt(notes, gauge, room),
        Sampling(max_tokens=summary_tokens, repetition_penalty=1.1),
        priority="low",
        deadline_s=deadline_s,
    )
    text, cut_off = "", False
    try:
        async with asyncio.timeout(deadline_s), aclosing(model.generate(request)) as events:
            async for event in events:
                match event:
                    case TextDelta():
                        text += event.text
                    case Finished():
                        cut_off = event.reason == "length"
    except TimeoutError:
        raise StageTimeout(f"the summary was not written within {deadline_s:.0f} s") from None
    text = " ".join(text.split())
    text = _whole_sentences(text) if cut_off else text
    if not text:
        raise StageError("the model wrote an empty summary")
    return text


def _prompt(notes: Notes, gauge: TokenGauge, room: int) -> tuple[ChatMessage, ...]:
    lines = [f"{_NAMES.get(message.role, message.role)}: {message.content}" for message in notes.messages]
    head = f"What came before: {notes.summary}\n\n" if notes.summary else ""
    asked = "{head}This is a conversation:\n\n{lines}\n\n{task}"
    # The newest lines matter most if not all find room; a single one that is too long loses its beginning.
    left = room - sum(map(gauge.tokens, (_SYSTEM, asked, head, _TASK)))
    text = asked.format(head=head, lines=_newest(lines, gauge, left), task=_TASK)
    return (ChatMessage("system", _SYSTEM), ChatMessage("user", text))


def _newest(lines: Sequence[str], gauge: TokenGauge, room: int) -> str:
    kept: list[str] = []
    for line in reversed(lines):
        needed = gauge.tokens(line)
        if needed > room:
            if not kept:
                kept.append(line[-max(1, len(line) * max(0, room) // needed) :])
            break
        kept.append(line)
        room -= needed
    return "\n".join(reversed(kept))


def _whole_sentences(text: str) -> str:
    """Without the sentence that the token limit broke off, if that leaves at least half."""
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    return text[: ends[-1]] if ends and ends[-1] * 2 >= len(text) else text
