"""How a reply looks on the wire: events of a stream, or one object.

A stream sends hundreds of chunks a second, so everything that does not change within a reply is
rendered once; a chunk costs one JSON string and two joins.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from app.llm import Finished, TextDelta, TokenLogprob, ToolCall

_encode = msgspec.json.Encoder().encode

DONE = b"data: [DONE]\n\n"


class Shape(Protocol):
    """One reply in the form of one endpoint. ``id`` names the reply."""

    id: str
    input_param: str
    """The field of the request that holds the prompt."""

    def opening(self) -> bytes:
        """Before the first piece of text; may be empty."""
        ...

    def delta(self, event: TextDelta) -> bytes: ...

    def call(self, index: int, call: ToolCall) -> bytes: ...

    def closing(self, finished: Finished, calls: int) -> bytes: ...

    def whole(self, deltas: Sequence[TextDelta], calls: Sequence[ToolCall], finished: Finished) -> bytes:
        """The reply as one object."""
        ...


def event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


class ChatShape:
    """/v1/chat/completions."""

    input_param = "messages"

    def __init__(self, model: str, *, include_usage: bool) -> None:
        self.id = f"chatcmpl-{secrets.token_hex(12)}"
        self._head = {"id": self.id, "object": "chat.completion.chunk", "created": int(time.time()), "model": model}
        self._include_usage = include_usage
        self._before = b"data: " + _open(self._head) + b',"choices":[{"index":0,"delta":'
        self._before_text = self._before + b'{"content":'
        usage = b',"usage":null' if include_usage else b""
        self._after = b',"finish_reason":null}]' + usage + b"}\n\n"
        self._after_text = b'},"logprobs":null' + self._after

    def opening(self) -> bytes:
        return self._before + b'{"role":"assistant","content":""},"logprobs":null' + self._after

    def delta(self, event: TextDelta) -> bytes:
        text = _encode(event.text)
        if not event.logprobs:
            return self._before_text + text + self._after_text
        return self._before_text + text + b'},"logprobs":' + _encode(_chat_logprobs(event.logprobs)) + self._after

    def call(self, index: int, call: ToolCall) -> bytes:
        """The whole call in one chunk: a call that turns out to be malformed cannot be taken back."""
        delta = {"tool_calls": [{"index": index, **_call(call)}]}
        return self._before + _encode(delta) + b',"logprobs":null' + self._after

    def closing(self, finished: Finished, calls: int) -> bytes:
        choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": _reason(finished, calls)}
        last: dict[str, Any] = {**self._head, "choices": [choice]}
        if not self._include_usage:
            return event(_encode(last)) + DONE
        usage = {**self._head, "choices": [], "usage": _usage(finished)}
        return event(_encode({**last, "usage": None})) + event(_encode(usage)) + DONE

    def whole(self, deltas: Sequence[TextDelta], calls: Sequence[ToolCall], finished: Finished) -> bytes:
        text = "".join(delta.text for delta in deltas)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if calls:
            message["content"] = text or None
            message["tool_calls"] = [_call(call) for call in calls]
        entries = [entry for delta in deltas for entry in delta.logprobs]
        choice = {
            "index": 0,
            "message": message,
            "logprobs": _chat_logprobs(entries) if entries else None,
            "finish_reason": _reason(finished, len(calls)),
        }
        head = {**self._head, "object": "chat.completion"}
        return _encode({**head, "choices": [choice], "usage": _usage(finished)})


class CompletionShape:
    """/v1/completions."""

    input_param = "prompt"

    def __init__(self, model: str, *, include_usage: bool) -> None:
        self.id = f"cmpl-{secrets.token_hex(12)}"
        self._head = {"id": self.id, "object": "text_completion", "created": int(time.time()), "model": model}
        self._include_usage = include_usage
        self._chars = 0
        self._before = b"data: " + _open(self._head) + b',"choices":[{"index":0,"text":'
        usage = b',"usage":null' if include_usage else b""
        self._after = b',"finish_reason":null}]' + usage + b"}\n\n"
        self._after_text = b',"logprobs":null' + self._after

    def opening(self) -> bytes:
        return b""

    def delta(self, event: TextDelta) -> bytes:
        text = _encode(event.text)
        if not event.logprobs:
            return self._before + text + self._after_text
        logprobs = _completion_logprobs(event.logprobs, self._chars)
        self._chars += sum(len(entry.token) for entry in event.logprobs)
        return self._before + text + b',"logprobs":' + _encode(logprobs) + self._after

    def call(self, index: int, call: ToolCall) -> bytes:
        raise AssertionError("a plain prompt has no tools")

    def closing(self, finished: Finished, calls: int) -> bytes:
        choice = {"index": 0, "text": "", "logprobs": None, "finish_reason": _reason(finished, 0)}
        last: dict[str, Any] = {**self._head, "choices": [choice]}
        if not self._include_usage:
            return event(_encode(last)) + DONE
        usage = {**self._head, "choices": [], "usage": _usage(finished)}
        return event(_encode({**last, "usage": None})) + event(_encode(usage)) + DONE

    def whole(self, deltas: Sequence[TextDelta], calls: Sequence[ToolCall], finished: Finished) -> bytes:
        entries = [entry for delta in deltas for entry in delta.logprobs]
        choice = {
            "index": 0,
            "text": "".join(delta.text for delta in deltas),
            "logprobs": _completion_logprobs(entries, 0) if entries else None,
            "finish_reason": _reason(finished, 0),
        }
        return _encode({**self._head, "choices": [choice], "usage": _usage(finished)})


def _open(head: dict[str, Any]) -> bytes:
    """The object without its closing brace, for more fields to follow."""
    return _encode(head)[:-1]


def _reason(finished: Finished, calls: int) -> str:
    return "tool_calls" if calls and finished.reason == "stop" else finished.reason


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _usage(finished: Finished) -> dict[str, Any]:
    usage = finished.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def _chat_logprobs(entries: Sequence[TokenLogprob]) -> dict[str, Any]:
    content = [
        {**_token(entry.token, entry.raw, entry.logprob), "top_logprobs": [_token(*other) for other in entry.top]}
        for entry in entries
    ]
    return {"content": content, "refusal": None}


def _token(token: str, raw: bytes, logprob: float) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": list(raw)}


def _completion_logprobs(entries: Sequence[TokenLogprob], offset: int) -> dict[str, Any]:
    """``offset`` is that of the first token in the reply's text, in characters."""
    offsets = []
    for entry in entries:
        offsets.append(offset)
        offset += len(entry.token)
    return {
        "tokens": [_name(entry.token, entry.raw) for entry in entries],
        "token_logprobs": [entry.logprob for entry in entries],
        "top_logprobs": [_top(entry) for entry in entries],
        "text_offset": offsets,
    }


def _top(entry: TokenLogprob) -> dict[str, float]:
    """Of control tokens that all show no text, the likeliest one's."""
    named: dict[str, float] = {}
    for token, raw, value in entry.top:
        named.setdefault(_name(token, raw), value)
    return named


def _name(token: str, raw: bytes) -> str:
    """As OpenAI's servers had it for parts of characters, which would all be the same as text."""
    is_text = "\ufffd" not in token or token.encode("utf-8", "replace") == raw
    return token if is_text else "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
