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


class Message(msgspec.Struct, frozen=True):
    role: Literal["system", "user", "assistant"]
    content: str


class SamplingSpec(msgspec.Struct, frozen=True):
    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    """Go on after an end-of-text token until ``max_tokens``: for measuring."""


class Submit(msgspec.Struct, frozen=True, tag="submit"):
    """One reply to produce. ``id`` is the client's and unique on its connection; ``salt`` keeps tenants apart."""

    id: int
    messages: tuple[Message, ...]
    sampling: SamplingSpec = SamplingSpec()
    session: str | None = None
    salt: str = ""


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    id: int


class EndSession(msgspec.Struct, frozen=True, tag="end_session"):
    session: str


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """Answered with Pong. Doubles as the question for figures."""

    id: int


class Shutdown(msgspec.Struct, frozen=True, tag="shutdown"):
    pass


class Loading(msgspec.Struct, frozen=True, tag="loading"):
    """The first answer to a new connection while the weights are still being read."""


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The model is loaded and warm. Times in seconds, memory in MiB of this process."""

    model: str
    runner: str
    device: str
    dtype: str
    context_tokens: int
    pool_tokens: int
    load_s: float
    warm_up_s: float
    memory_mb: float


class LoadFailed(msgspec.Struct, frozen=True, tag="load_failed"):
    message: str


class Delta(msgspec.Struct, frozen=True, tag="delta"):
    id: int
    text: str


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


class Figures(msgspec.Struct, frozen=True):
    """How the engine stands. Counters are since its start; ``step_age_s`` is 0 between steps."""

    running: int
    waiting: int
    sessions: int
    blocks_total: int
    blocks_free: int
    blocks_cached: int
    blocks_held: int
    steps: int
    prefill_tokens: int
    decode_tokens: int
    cached_tokens: int
    preemptions: int
    evictions: int
    cancelled: int
    failed: int
    finished: int
    step_age_s: float
    last_step_ms: float
    memory_mb: float


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    id: int
    figures: Figures | None
    """None while the model is loading."""


Command: TypeAlias = Submit | Cancel | EndSession | Ping | Shutdown
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
