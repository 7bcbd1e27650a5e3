"""What every language model backend offers to the dialogue and to the API server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from app.telemetry.stage import StageReport

Role: TypeAlias = Literal["system", "user", "assistant"]
FinishReason: TypeAlias = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. ``temperature`` 0 is greedy; ``top_k`` 0 and ``top_p`` 1 switch those filters off."""

    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One reply to produce.

    ``messages`` is the whole conversation so far, as it was HEARD. With a ``session_id`` the worker
    compares it with that session's ledger and prefills only what differs, so cutting a reply
    (barge-in) needs no call of its own, and a worker that lost the session rebuilds it from here.
    """

    messages: tuple[ChatMessage, ...]
    sampling: Sampling = field(default_factory=Sampling)
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts. ``cached_tokens`` of the ``prompt_tokens`` were not prefilled again."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a reply. Times in ms, as the backend saw them."""

    reason: FinishReason
    usage: Usage
    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0


LlmEvent: TypeAlias = TextDelta | Finished


class LanguageModel(Protocol):
    """Streams replies. Safe to call from many sessions at once."""

    async def load(self) -> StageReport:
        """Start or reach the model and warm it up; raises ModelError or StageUnavailable."""
        ...

    def generate(self, request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        """Stream TextDelta events, then one Finished. ``aclose()`` or cancelling cancels the work for real.

        Raises StageUnavailable, StageTimeout, Overloaded, ContextOverflow or another StageError.
        """
        ...

    async def end_session(self, session_id: str) -> None:
        """Forget a session and free what it holds. Unknown ids are fine."""
        ...

    async def close(self) -> None: ...
