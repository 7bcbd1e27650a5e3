"""What travels between the worker process and its clients, and how it is framed.

A frame is a four-byte big-endian length and one msgpack array of tagged messages, so that all
the pieces of text that one step yields for a client travel in one write.
"""

from __future__ import annotations

import struct
from typing import Literal, TypeAlias

import msgspec

MAX_FRAME_BYTES = 32 * 1024 * 1024
"""A longer frame means that the two ends have lost each other; the connection is dropped."""

HEADER = struct.Struct(">I")


class ToolCall(msgspec.Struct, frozen=True):
    """A call that the assistant made; ``arguments`` is JSON text, as OpenAI has it."""

    id: str
    name: str
    arguments: str


class Message(msgspec.Struct, frozen=True):
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    """Of an assistant message."""
    tool_call_id: str = ""
    """Of a tool message: the call that it answers."""


class SamplingSpec(msgspec.Struct, frozen=True):
    max_tokens: int | None = 256
    """None: as many as the context has room for."""
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[int, float] = {}
    """Token id to what is added to its logit."""
    seed: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    """Go on after an end-of-text token until ``max_tokens``: for measuring."""
    logprobs: int | None = None
    """None: no log-probabilities; n >= 0: those of the drawn token and of the n likeliest."""
    json_schema: str | None = None
    """JSON text of a schema that the reply must satisfy; "{}" for any JSON object."""


Priority: TypeAlias = Literal["low", "normal", "vip"]


class Submit(msgspec.Struct, frozen=True, tag="submit"):
    """One reply to produce. ``id`` is the client's and unique on its connection; ``salt`` keeps tenants apart."""

    id: int
    messages: tuple[Message, ...] = ()
    sampling: SamplingSpec = SamplingSpec()
    session: str | None = None
    salt: str = ""
    prompt: str | tuple[int, ...] | None = None
    """Plain text or token ids to continue, in place of ``messages`` and the chat template."""
    tools: str = ""
    """JSON text of the list of tools that the model may call, as OpenAI has it; "" for none."""
    priority: Priority = "normal"
    spoken: bool = False
    """The reply is read aloud while it is written: its urgency is what is left of the speech already made."""
    deadline_s: float | None = None
    """Ended with code "stage_timeout" if not finished this long after submission."""
    only_prefill: bool = False
    """Compute the conversation into the session ahead of its turn: its last message may still grow, nothing is
    drawn, and Done comes with reason "length" and no completion tokens."""


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    id: int


class EndSession(msgspec.Struct, frozen=True, tag="end_session"):
    """Forget a session; ``salt`` as in its Submit."""

    session: str
    salt: str = ""


class Truncate(msgspec.Struct, frozen=True, tag="truncate"):
    """Cut the session's last reply to its first ``heard_tokens`` tokens, in the ledger and in the KV cache.

    A reply that is still being made is cancelled first. After a draft (only_prefill), which has no reply, nothing
    is cut; ``salt`` as in the session's Submit.
    """

    session: str
    heard_tokens: int
    salt: str = ""


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """Answered with Pong. Doubles as the question for figures."""

    id: int


class Shutdown(msgspec.Struct, frozen=True, tag="shutdown"):
    pass


class Loading(msgspec.Struct, frozen=True, tag="loading"):
    """The first answer to a new connection while the weights are still being read."""


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The model is loaded and warm. Times in seconds, memory in MiB of this process."""

    runner: str
    device: str
    dtype: str
    context_tokens: int
    pool_tokens: int
    load_s: float
    warm_up_s: float
    memory_mb: float
    tool_format: str = ""
    """How the model writes tool calls (app/llm/tool_calls.py); "" if its template knows none."""


class LoadFailed(msgspec.Struct, frozen=True, tag="load_failed"):
    message: str


class TokenLogprob(msgspec.Struct, frozen=True):
    """A token that holds only part of a character has U+FFFD in its text, and what it really is in ``raw``."""

    token: str
    raw: bytes
    logprob: float
    """Natural logarithm, of the distribution before temperature and filters."""
    top: tuple[tuple[str, bytes, float], ...] = ()
    """As the token itself; the likeliest first."""


class Delta(msgspec.Struct, frozen=True, tag="delta"):
    """``tokens`` counts the tokens drawn since the last Delta; ``text`` may be "" where only ``logprobs`` are news.

    A reply that is held back for others says at least once a second that it will go on: no tokens and no text.
    """

    id: int
    text: str
    tokens: int = 1
    logprobs: tuple[TokenLogprob, ...] = ()


class Counts(msgspec.Struct, frozen=True):
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The one terminal event of a reply that was not refused and did not fail. Times in ms."""

    id: int
    reason: Literal["stop", "length", "cancelled"]
    counts: Counts
    queue_ms: float
    prefill_ms: float
    decode_ms: float


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The one terminal event of a reply that was refused or failed; ``code`` as in app/errors.py."""

    id: int
    code: str
    message: str
    retry_after_s: float = 0.0
    param: str = ""
    """Of a bad request: the field of Submit or of its sampling that is to blame; "" if it is none in particular."""


class Spread(msgspec.Struct, frozen=True):
    """A histogram since the engine's start, of fixed size: ``counts[i]`` values were at most ``bounds[i]`` and above
    the bound before; the last count, one more than there are bounds, is of those above them all."""

    bounds: tuple[float, ...] = ()
    counts: tuple[int, ...] = (0,)
    total: float = 0.0
    """Sum of the values."""


class Figures(msgspec.Struct, frozen=True):
    """How the engine stands. Counters are since its start; ``step_age_s`` is 0 between steps."""

    running: int
    waiting: int
    """Submitted and not running: being tokenised, queued, or preempted."""
    sessions: int
    blocks_total: int
    blocks_free: int
    blocks_cached: int
    blocks_held: int
    steps: int
    prefill_tokens: int
    """Run through the model as part of a prompt, computing again after a preemption included."""
    decode_tokens: int
    cached_tokens: int
    """Prompt tokens found computed at a request's first admission."""
    preemptions: int
    evictions: int
    """Blocks whose cached prefix was given up for room."""
    cancelled: int
    failed: int
    finished: int
    step_age_s: float
    last_step_ms: float
    memory_mb: float
    prompt_tokens: int = 0
    """Of the requests admitted so far: what ``cached_tokens`` is a part of."""
    recomputed_tokens: int = 0
    """Run again after a preemption; part of ``prefill_tokens``."""
    draft_tokens: int = 0
    """Prefilled ahead of a turn (only_prefill)."""
    session_evictions: int = 0
    """Idle sessions that lost their blocks for room or by age; their ledgers stay."""
    refused: int = 0
    """Of ``failed``: never admitted, because of a full queue, a bad request, or a prompt without room."""
    timed_out: int = 0
    """Of ``failed``: ended at their deadline."""
    resets: int = 0
    """Times the engine threw its books away after a failed integrity check."""
    step_ms: Spread = Spread()
    step_rows: Spread = Spread()
    """Sequences in a step."""
    queue_ms: Spread = Spread()
    """From submission to the first step."""
    ttft_ms: Spread = Spread()
    """From submission to the first token."""
    inter_token_ms: Spread = Spread()


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    id: int
    figures: Figures | None
    """None while the model is loading."""


Command: TypeAlias = Submit | Cancel | EndSession | Truncate | Ping | Shutdown
ReplyEvent: TypeAlias = Delta | Done | Failed
Event: TypeAlias = Loading | Ready | LoadFailed | Delta | Done | Failed | Pong

_encoder = msgspec.msgpack.Encoder()
_commands = msgspec.msgpack.Decoder(list[Command])
_events = msgspec.msgpack.Decoder(list[Event])


def frame(messages: list[Command] | list[Event]) -> bytes:
    """One frame, ready to be written."""
    body = _encoder.encode(messages)
    return HEADER.pack(len(body)) + body


def decode_commands(body: bytes) -> list[Command]:
    """Raises msgspec.ValidationError on anything that is not a list of commands."""
    return _commands.decode(body)


def decode_events(body: bytes) -> list[Event]:
    return _events.decode(body)
