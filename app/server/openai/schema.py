"""The bodies of OpenAI's requests, as far as Parley reads them; fields that are not here are ignored.

Fields typed ``object`` exist so that a use of them can be refused by name. What may come by the ten thousand
is of no concern to the garbage collector (``gc=False``): decoded JSON has no cycles.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Part(msgspec.Struct, frozen=True, gc=False):
    type: str
    text: str | None = None


class FunctionCall(msgspec.Struct, frozen=True, gc=False):
    name: str
    arguments: str = "{}"


class CallIn(msgspec.Struct, frozen=True, gc=False):
    id: str
    function: FunctionCall
    type: Literal["function"] = "function"


class MessageIn(msgspec.Struct, frozen=True, gc=False):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    tool_calls: list[CallIn] | None = None
    tool_call_id: str | None = None


class FunctionIn(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ToolIn(msgspec.Struct, frozen=True):
    type: str
    function: FunctionIn | None = None


class JsonSchema(msgspec.Struct, frozen=True):
    name: str = ""
    schema: dict[str, Any] | None = None


class ResponseFormat(msgspec.Struct, frozen=True):
    type: str
    json_schema: JsonSchema | None = None


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class RequestIn(msgspec.Struct, frozen=True, kw_only=True):
    """What both endpoints take."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    logit_bias: dict[int, float] | None = None
    max_tokens: int | None = None
    response_format: ResponseFormat | None = None
    n: int | None = None
    ignore_eos: bool | None = None
    session_id: str | None = None
    priority: Literal["low", "normal", "vip"] | None = None
    timeout: float | None = None


class ChatIn(RequestIn, frozen=True, kw_only=True):
    messages: list[MessageIn]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[ToolIn] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    functions: object = None
    function_call: object = None
    modalities: list[str] | None = None
    audio: object = None
    web_search_options: object = None


class CompletionIn(RequestIn, frozen=True, kw_only=True):
    prompt: str | list[str | int | list[int]]
    logprobs: int | None = None
    echo: bool | None = None
    suffix: str | None = None
    best_of: int | None = None
