"""What every language model backend offers to the dialogue and to the API server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from app.telemetry.stage import StageReport

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
FinishReason: TypeAlias = Literal["stop", "length", "cancelled"]
Priority: TypeAlias = Literal["low", "normal", "vip"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the assistant made; ``arguments`` is JSON text, as OpenAI has it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    """Of an assistant message."""
    tool_call_id: str = ""
    """Of a tool message: the call that it answers."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. ``temperature`` 0 is greedy; ``top_k`` 0, ``top_p`` 1 and ``min_p`` 0 switch those off."""

    max_tokens: int | None = 256
    """None: as many as the context has room for."""
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    """None: no log-probabilities; n >= 0: those of the drawn token and of the n likeliest."""
    json_schema: str | None = None
    """JSON text of a schema that the reply must satisfy; "{}" for any JSON object."""


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One reply to produce.

    ``messages`` is the whole conversation so far, as it was HEARD. With a ``session_id`` the worker
    compares it with that session's ledger and prefills only what differs, so cutting a reply
    (barge-in) needs no call of its own, and a worker that lost the session rebuilds it from here.
    """

    messages: tuple[ChatMessage, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    session_id: str | None = None
    tenant: str = ""
    """Cached prefixes are shared only within a tenant."""
    prompt: str | tuple[int, ...] | None = None
    """Plain text or token ids to continue, in place of ``messages`` and the chat template."""
    tools: str = ""
    """JSON text of the list of tools that the model may call, as OpenAI has it; "" for none."""
    priority: Priority = "normal"
    spoken: bool = False
    """The reply is read aloud while it is written."""
    deadline_s: float | None = None
    """StageTimeout if the reply is not finished by then, seconds from now. Until then its pauses may be of any length."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts. ``cached_tokens`` of the ``prompt_tokens`` were not prefilled again."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token that holds only part of a character has U+FFFD in its text, and what it really is in ``raw``."""

    token: str
    raw: bytes
    logprob: float
    """Natural logarithm, of the distribution before temperature and filters."""
    top: tuple[tuple[str, bytes, float], ...] = ()
    """As the token itself; the likeliest first."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """``tokens`` were drawn for it; ``text`` may be "" where only ``logprobs`` are news."""

    text: str
    tokens: int = 1
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a reply. Times in ms, as the backend saw them."""

    reason: FinishReason
    usage: Usage
    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0


LlmEvent: TypeAlias = TextDelta | ToolCall | Finished
"""A ToolCall comes whole, and only where the request has ``tools``."""


class LanguageModel(Protocol):
    """Streams replies. Safe to call from many sessions at once."""

    async def load(self) -> StageReport:
        """Start or reach the model and warm it up; raises ModelError or StageUnavailable."""
        ...

    def generate(self, request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        """Stream TextDelta and ToolCall events, then one Finished. ``aclose()`` or cancelling cancels the work for real.

        Raises StageUnavailable, StageTimeout, Overloaded, ContextOverflow or another StageError.
        """
        ...

    @property
    def context_tokens(self) -> int:
        """Longest prompt and reply together. Known once loaded."""
        ...

    async def extend(self, request: GenerateRequest) -> Usage:
        """Compute a conversation into its session ahead of the turn; the last message may still grow or change.

        A hint: the turn that follows is answered the same without it, only later. A backend that cannot do it
        returns zeros. Raises as ``generate`` does.
        """
        ...

    async def truncate(self, session_id: str, heard_tokens: int) -> None:
        """Cut the session's last reply to its first ``heard_tokens`` tokens. A hint too; unknown ids are fine."""
        ...

    async def end_session(self, session_id: str) -> None:
        """Forget a session and free what it holds. Unknown ids are fine."""
        ...

    async def close(self) -> None: ...
