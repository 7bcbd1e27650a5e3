"""Requests and stream chunks as OpenAI-compatible servers have them, and as Parley has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from app.llm.base import (
    ChatMessage,
    FinishReason,
    GenerateRequest,
    LlmEvent,
    Sampling,
    TextDelta,
    TokenLogprob,
    ToolCall,
    Usage,
)


def endpoint(request: GenerateRequest) -> str:
    """Relative to the base URL."""
    return "chat/completions" if request.prompt is None else "completions"


def request_body(model: str, request: GenerateRequest) -> dict[str, Any]:
    """What is at its default is left out, because some servers refuse fields that they do not know."""
    body: dict[str, Any] = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    if request.prompt is None:
        body["messages"] = [_message(message) for message in request.messages]
    else:
        body["prompt"] = request.prompt
    if request.tools:
        body["tools"] = json.loads(request.tools)
    sampling = request.sampling
    body |= {"temperature": sampling.temperature, "top_p": sampling.top_p}
    body |= _further(sampling, is_chat=request.prompt is None)
    if request.tenant:
        # Fields of llama.cpp, vLLM and Parley, which hosted servers refuse. A client of the API, who is a tenant,
        # asked for them by name; for Parley's own conversations they are a preference that must not end one.
        body |= _extensions(sampling)
    return body


def _message(message: ChatMessage) -> dict[str, Any]:
    entry: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        entry["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.role == "tool":
        entry["tool_call_id"] = message.tool_call_id
    return entry


def _further(sampling: Sampling, *, is_chat: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if sampling.max_tokens is not None:
        fields["max_tokens"] = sampling.max_tokens
    if sampling.seed is not None:
        fields["seed"] = sampling.seed
    if sampling.stop:
        fields["stop"] = list(sampling.stop)
    if sampling.presence_penalty:
        fields["presence_penalty"] = sampling.presence_penalty
    if sampling.frequency_penalty:
        fields["frequency_penalty"] = sampling.frequency_penalty
    if sampling.logit_bias:
        fields["logit_bias"] = {str(token): bias for token, bias in sampling.logit_bias.items()}
    if sampling.logprobs is not None:
        fields |= {"logprobs": True, "top_logprobs": sampling.logprobs} if is_chat else {"logprobs": sampling.logprobs}
    if sampling.json_schema is not None:
        schema = json.loads(sampling.json_schema)
        fields["response_format"] = (
            {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
            if schema
            else {"type": "json_object"}
        )
    return fields


def _extensions(sampling: Sampling) -> dict[str, Any]:
    wanted = {
        "top_k": (sampling.top_k, 0),
        "min_p": (sampling.min_p, 0.0),
        "repetition_penalty": (sampling.repetition_penalty, 1.0),
        "ignore_eos": (sampling.ignore_eos, False),
    }
    return {name: value for name, (value, default) in wanted.items() if value != default}


@dataclass
class StreamReader:
    """Gathers a stream's chunks. Calls come in pieces here and leave whole, at the end."""

    reason: FinishReason | None = None
    pieces: int = 0
    _usage: dict[str, Any] = field(default_factory=dict)
    _calls: dict[int, dict[str, str]] = field(default_factory=dict)

    def take(self, chunk: dict[str, Any]) -> Iterator[TextDelta]:
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices") or []:
            delta = choice.get("delta") or {}
            text = delta.get("content") or choice.get("text") or ""
            logprobs = tuple(_logprobs(choice.get("logprobs") or {}))
            if text or logprobs:
                self.pieces += 1
                yield TextDelta(text, 1, logprobs)
            for part in delta.get("tool_calls") or []:
                self._gather(part)
            if choice.get("finish_reason"):
                self.reason = "length" if choice["finish_reason"] == "length" else "stop"

    def calls(self) -> Iterator[LlmEvent]:
        for index in sorted(self._calls):
            call = self._calls[index]
            yield ToolCall(call["id"], call["name"], call["arguments"] or "{}")

    @property
    def usage(self) -> Usage:
        counts = self._usage
        cached = (counts.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        return Usage(counts.get("prompt_tokens") or 0, cached, counts.get("completion_tokens") or self.pieces)

    def _gather(self, part: dict[str, Any]) -> None:
        call = self._calls.setdefault(int(part.get("index") or 0), {"id": "", "name": "", "arguments": ""})
        function = part.get("function") or {}
        call["id"] = part.get("id") or call["id"]
        call["name"] += function.get("name") or ""
        call["arguments"] += function.get("arguments") or ""


def _logprobs(entry: dict[str, Any]) -> Iterator[TokenLogprob]:
    for token in entry.get("content") or []:
        top = tuple((other["token"], _raw(other), float(other["logprob"])) for other in token.get("top_logprobs") or [])
        yield TokenLogprob(token["token"], _raw(token), float(token["logprob"]), top)
    tops = entry.get("top_logprobs") or []
    for index, (text, value) in enumerate(
        zip(entry.get("tokens") or [], entry.get("token_logprobs") or [], strict=False)
    ):
        others = (tops[index] or {}) if index < len(tops) else {}
        top = tuple((name, _raw({"token": name}), float(logprob)) for name, logprob in others.items())
        yield TokenLogprob(text, _raw({"token": text}), float(value or 0.0), top)


def _raw(token: dict[str, Any]) -> bytes:
    """Servers may leave out the bytes, and the older endpoint has none."""
    given = token.get("bytes")
    return bytes(given) if given is not None else str(token["token"]).encode("utf-8", "replace")
