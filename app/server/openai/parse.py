"""From the body of a request to a ``GenerateRequest``; everything wrong with it is an ApiError that names the field."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from app.errors import ContextOverflow
from app.llm import ChatMessage, GenerateRequest, Sampling, ToolCall
from app.server.openai.errors import ApiError, invalid, unsupported
from app.server.openai.schema import ChatIn, CompletionIn, MessageIn, Part, RequestIn, ToolIn

MAX_STOPS = 16
MAX_TOP_LOGPROBS = 20
MAX_SESSION_CHARS = 256
MAX_LOGIT_BIASES = 1024
MAX_INTEGER = (1 << 63) - 1
"""What travels to the worker has 64 bits."""
DEFAULT_TIMEOUT_S = 600.0
"""Seconds; the official client gives up after as many."""
_LONGEST_TIMEOUT_S = 86_400.0
_COMPLETION_TOKENS = 16
"""OpenAI's default length of /v1/completions; a chat reply may fill the context."""

Body = TypeVar("Body", bound=RequestIn)

_chats = msgspec.json.Decoder(ChatIn)
_completions = msgspec.json.Decoder(CompletionIn)


@dataclass(frozen=True, slots=True)
class Job:
    """A request that was understood."""

    model: str
    request: GenerateRequest
    stream: bool
    include_usage: bool
    one_call: bool = False
    """At most one tool call is wanted (``parallel_tool_calls: false``)."""


def tenant_of(authorization: str | None) -> str:
    """A name for the key of an Authorization header that does not tell the key; each key is a tenant of its own."""
    key = (authorization or "").partition(" ")[2].strip()
    return hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=16, person=b"parley-tenant").hexdigest()


def chat_job(body: bytes, tenant: str, session_header: str | None, context_tokens: int) -> Job:
    """Raises ApiError. ``context_tokens`` bounds the number of messages: each has one token at least."""
    asked = _decode(_chats.decode, body)
    for param, value, instead in (
        ("functions", asked.functions, "use tools"),
        ("function_call", asked.function_call, "use tool_choice"),
        ("audio", asked.audio, "replies are text"),
        ("web_search_options", asked.web_search_options, "this server has no web search"),
    ):
        if value is not None:
            raise unsupported(param, instead)
    if asked.modalities is not None and asked.modalities != ["text"]:
        raise unsupported("modalities", 'replies are text, leave it out or send ["text"]')
    if not asked.messages:
        raise invalid("messages", "at least one message is needed")
    if len(asked.messages) > context_tokens:
        told = f"{len(asked.messages)} messages cannot fit the context of {context_tokens} tokens (llm.context_tokens)"
        raise ApiError(400, told, code=ContextOverflow.code, param="messages")
    if asked.max_tokens is not None and asked.max_completion_tokens is not None:
        raise invalid("max_tokens", "send either max_tokens or max_completion_tokens")
    if asked.max_completion_tokens is not None:
        _length("max_completion_tokens", asked.max_completion_tokens)
    if asked.top_logprobs is not None and not asked.logprobs:
        raise invalid("top_logprobs", "needs logprobs: true")
    logprobs = _within("top_logprobs", asked.top_logprobs or 0, 0, MAX_TOP_LOGPROBS) if asked.logprobs else None
    sampling = _sampling(asked, asked.max_completion_tokens or asked.max_tokens, logprobs)
    tools = _tools(asked)
    if tools and sampling.json_schema is not None:
        raise invalid("response_format", "cannot be used together with tools: a reply has one form")
    request = GenerateRequest(
        messages=tuple(_message(index, message) for index, message in enumerate(asked.messages)),
        sampling=sampling,
        session_id=_session(asked, tenant, session_header),
        tenant=tenant,
        tools=tools,
        priority=asked.priority or "normal",
        deadline_s=_deadline(asked),
    )
    return _job(asked, request, one_call=asked.parallel_tool_calls is False)


def completion_job(body: bytes, tenant: str, session_header: str | None, context_tokens: int) -> Job:
    """Raises ApiError. The length of a prompt is for the worker to judge."""
    asked = _decode(_completions.decode, body)
    if asked.echo:
        raise unsupported("echo", "put the prompt in front of the answer yourself")
    if asked.suffix:
        raise unsupported("suffix", "only the end of a text can be written")
    if asked.best_of not in (None, 1):
        raise unsupported("best_of", "each request gives one answer")
    logprobs = None if asked.logprobs is None else _within("logprobs", asked.logprobs, 0, MAX_TOP_LOGPROBS)
    max_tokens = _COMPLETION_TOKENS if asked.max_tokens is None else asked.max_tokens
    request = GenerateRequest(
        sampling=_sampling(asked, max_tokens, logprobs),
        session_id=_session(asked, tenant, session_header),
        tenant=tenant,
        prompt=_prompt(asked.prompt),
        priority=asked.priority or "normal",
        deadline_s=_deadline(asked),
    )
    return _job(asked, request)


def _job(asked: RequestIn, request: GenerateRequest, *, one_call: bool = False) -> Job:
    if asked.n not in (None, 1):
        raise unsupported("n", "each request gives one answer")
    if asked.stream_options is not None and not asked.stream:
        raise invalid("stream_options", "needs stream: true")
    include_usage = asked.stream_options is not None and bool(asked.stream_options.include_usage)
    return Job(asked.model, request, bool(asked.stream), include_usage, one_call)


def _decode(decode: Callable[[bytes], Body], body: bytes) -> Body:
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        message = str(error)
        found = re.search(r" - at (?:`key` in )?`\$\.?([^`]*)`$", message)
        missing = re.search(r"missing required field `(\w+)`", message)
        path = ".".join(part for part in (found and found[1], missing and missing[1]) if part)
        what = message[: found.start()] if found else message
        raise ApiError(400, f"{path or 'body'}: {what}", param=path or None, code="invalid_value") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(400, f"The body is not valid JSON: {error}", code="invalid_json") from None


def _sampling(asked: RequestIn, max_tokens: int | None, logprobs: int | None) -> Sampling:
    """OpenAI's defaults where a field is left out, not those of config.toml: its clients count on them."""
    if max_tokens is not None:
        _length("max_tokens", max_tokens)
    seed = asked.seed
    if seed is not None and not -MAX_INTEGER - 1 <= seed <= MAX_INTEGER:
        raise invalid("seed", "must fit 64 bits")
    return Sampling(
        max_tokens=max_tokens,
        temperature=_within("temperature", _or(asked.temperature, 1.0), 0.0, 2.0),
        top_p=_within("top_p", _or(asked.top_p, 1.0), 0.0, 1.0),
        top_k=max(0, _within("top_k", _or(asked.top_k, 0), -1, 1 << 31)),  # some clients send -1 for off
        min_p=_within("min_p", _or(asked.min_p, 0.0), 0.0, 1.0),
        repetition_penalty=_within("repetition_penalty", _or(asked.repetition_penalty, 1.0), 0.01, 10.0),
        presence_penalty=_within("presence_penalty", _or(asked.presence_penalty, 0.0), -2.0, 2.0),
        frequency_penalty=_within("frequency_penalty", _or(asked.frequency_penalty, 0.0), -2.0, 2.0),
        logit_bias=_logit_bias(asked.logit_bias or {}),
        seed=None if seed is None else seed & MAX_INTEGER,
        stop=_stops(asked.stop),
        ignore_eos=bool(asked.ignore_eos),
        logprobs=logprobs,
        json_schema=_json_schema(asked),
    )


_Number = TypeVar("_Number", int, float)


def _or(value: _Number | None, default: _Number) -> _Number:
    return default if value is None else value


def _within(param: str, value: _Number, low: _Number, high: _Number) -> _Number:
    if not low <= value <= high:
        raise invalid(param, f"is {value}, must be from {low:g} to {high:g}")
    return value


def _length(param: str, tokens: int) -> None:
    if not 1 <= tokens <= MAX_INTEGER:
        raise invalid(param, "must be at least 1, and fit 64 bits")


def _stops(stop: str | list[str] | None) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if len(stops) > MAX_STOPS:
        raise invalid("stop", f"at most {MAX_STOPS} strings")
    return tuple(entry for entry in stops if entry)


def _logit_bias(bias: dict[int, float]) -> dict[int, float]:
    if len(bias) > MAX_LOGIT_BIASES:
        raise invalid("logit_bias", f"at most {MAX_LOGIT_BIASES} tokens")
    for token, value in bias.items():
        if not 0 <= token <= MAX_INTEGER:
            raise invalid("logit_bias", f"{token} is no token id")
        _within("logit_bias", value, -100.0, 100.0)
    return bias


def _json_schema(asked: RequestIn) -> str | None:
    wanted = asked.response_format
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return "{}"
    if wanted.type != "json_schema":
        raise unsupported("response_format.type", 'use "text", "json_object" or "json_schema"')
    if wanted.json_schema is None or wanted.json_schema.schema is None:
        raise invalid("response_format.json_schema.schema", "a JSON schema is needed")
    return msgspec.json.encode(wanted.json_schema.schema).decode()


def _session(asked: RequestIn, tenant: str, header: str | None) -> str | None:
    """The client's name for its session, inside its tenant's own space of names."""
    name = asked.session_id or header
    if not name:
        return None
    if len(name) > MAX_SESSION_CHARS:
        raise invalid("session_id", f"at most {MAX_SESSION_CHARS} characters")
    return f"api:{tenant}:{name}"


def _deadline(asked: RequestIn) -> float:
    """Seconds. A program would rather wait in the queue than be told soon, as a listener must be."""
    if asked.timeout is None:
        return DEFAULT_TIMEOUT_S
    if not 0 < asked.timeout <= _LONGEST_TIMEOUT_S:
        raise invalid("timeout", "seconds, more than 0 and at most a day")
    return asked.timeout


def _prompt(prompt: str | Sequence[str | int | list[int]]) -> str | tuple[int, ...]:
    if not isinstance(prompt, str) and len(prompt) == 1 and not isinstance(prompt[0], int):
        prompt = prompt[0]  # a batch of one
    if not prompt:
        raise invalid("prompt", "is empty")
    if isinstance(prompt, str):
        return prompt
    ids = [token for token in prompt if isinstance(token, int)]
    if len(ids) != len(prompt):
        raise unsupported("prompt", "send one prompt for each request, a string or a list of token ids")
    unknown = next((token for token in ids if not 0 <= token <= MAX_INTEGER), None)
    if unknown is not None:
        raise invalid("prompt", f"{unknown} is no token id")
    return tuple(ids)


def _message(index: int, message: MessageIn) -> ChatMessage:
    at = f"messages[{index}]"
    content = _content(at, message.content)
    calls = tuple(ToolCall(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ())
    match message.role:
        case "developer":
            return ChatMessage("system", content)
        case "tool":
            if not message.tool_call_id:
                raise invalid(f"{at}.tool_call_id", "a tool message names the call that it answers")
            return ChatMessage("tool", content, tool_call_id=message.tool_call_id)
        case "assistant":
            return ChatMessage("assistant", content, calls)
    if message.content is None:
        raise invalid(f"{at}.content", "is missing")
    return ChatMessage(message.role, content)


def _content(at: str, content: str | list[Part] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for number, part in enumerate(content):
        if part.type not in ("text", "refusal"):
            raise unsupported(f"{at}.content[{number}].type", f'"{part.type}" cannot be read, only "text"')
        texts.append(part.text or "")
    return "".join(texts)


def _tools(asked: ChatIn) -> str:
    """JSON text of the tools that the model shall know; "" for none."""
    choice = asked.tool_choice
    tools = asked.tools or []
    names: set[str] = set()
    for index, tool in enumerate(tools):
        _check_tool(f"tools[{index}]", tool, names)
    if choice not in (None, "none", "auto"):
        raise unsupported("tool_choice", 'use "none" or "auto"; a call cannot be forced')
    if not tools or choice == "none":
        return ""
    return msgspec.json.encode(tools).decode()


def _check_tool(at: str, tool: ToolIn, names: set[str]) -> None:
    if tool.type != "function":
        raise unsupported(f"{at}.type", 'only "function" tools')
    if tool.function is None or not re.fullmatch(r"[\w.-]{1,64}", tool.function.name, re.ASCII):
        raise invalid(f"{at}.function.name", "1 to 64 letters, digits, dots, dashes and underscores")
    if tool.function.name in names:
        raise invalid(f"{at}.function.name", f'"{tool.function.name}" is there twice')
    names.add(tool.function.name)
