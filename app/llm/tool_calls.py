"""Finds a model's tool calls in the text of its reply, while it is being written.

Text goes through at once, as long as it cannot be the beginning of a call. A call is held until it
is complete and proves well formed, for what has been told as a call cannot be taken back; what is
not well formed goes through as the text that it is.
"""

from __future__ import annotations

import json
import re
import secrets
import string
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeAlias

from app.engine.tools import ToolFormat, format_named
from app.llm.base import Finished, LlmEvent, TextDelta, ToolCall

Found: TypeAlias = str | ToolCall

_ID_CHARS = string.ascii_letters + string.digits
_ID_LENGTH = 9
"""Mistral's templates insist on it; the others take anything."""

_NAMED = re.compile(r"\s*([\w.-]+)\s*(?:\[CALL_ID\]\s*\w+\s*)?(?:\[ARGS\])?\s*(\{.*)", re.DOTALL)
_FUNCTION = re.compile(r"<function=([^>\s]+)\s*>(.*?)</function>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)\s*>\n?(.*?)\n?</parameter>", re.DOTALL)
_ARGUMENT = re.compile(r"<arg_key>\s*(.*?)\s*</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)


async def with_tool_calls(
    events: AsyncGenerator[LlmEvent, None], format_name: str, tools: str
) -> AsyncGenerator[LlmEvent, None]:
    """``events`` with the calls in their text made into ToolCall events. ``tools`` is the request's, JSON text."""
    reader = ToolCallReader(format_name, tools)
    async with aclosing(events):
        async for event in events:
            match event:
                case TextDelta():
                    left = event
                    for found in reader.push(event.text):
                        if isinstance(found, ToolCall):
                            yield found
                        else:
                            yield replace(left, text=found)
                            left = TextDelta("", 0)
                    if left.logprobs:
                        yield replace(left, text="")
                case Finished():
                    for found in reader.finish():
                        yield found if isinstance(found, ToolCall) else TextDelta(found, 0)
                    yield event
                case _:
                    yield event


class ToolCallReader:
    """For one reply. Unknown formats let everything through."""

    def __init__(self, format_name: str, tools: str) -> None:
        self._format = format_named(format_name)
        self._types = _argument_types(tools)
        self._held = ""
        self._inside = False
        self._searched = 0
        self._called = False
        whole_reply = self._format is not None and not self._format.start
        self._undecided = whole_reply
        """Whether a format without a start mark may still turn out to be a call."""

    def push(self, text: str) -> Iterator[Found]:
        """What is certain after this piece of text."""
        if self._format is None or (not self._format.start and not self._undecided):
            yield text
            return
        self._held += text
        if self._undecided:
            yield from self._decide()
            return
        step: list[Found] | None = []
        while step is not None and self._held:
            step = self._leave(self._format) if self._inside else self._enter(self._format)
            yield from step or ()

    def finish(self) -> Iterator[Found]:
        """The rest, when no text follows."""
        held, self._held = self._held, ""
        if self._format is None or not held:
            return
        ends_open = self._inside and not self._format.end
        if ends_open or self._undecided:
            calls = self._calls(held[len(self._format.start) :])
            if calls:
                yield from calls
                return
        if not self._called or held.strip():
            yield held

    def _decide(self) -> list[Found]:
        """A reply that begins like a call is held to its end; any other one goes through from here on."""
        begin = self._held.lstrip()
        if not begin or begin[0] == "{" or _PYTHON_TAG.startswith(begin) or begin.startswith(_PYTHON_TAG):
            return []
        self._undecided = False
        held, self._held = self._held, ""
        return [held]

    def _enter(self, form: ToolFormat) -> list[Found] | None:
        """The text before the next call; None if no more can be told yet."""
        at = self._held.find(form.start)
        if at >= 0:
            before, self._held = self._held[:at], self._held[at:]
            self._inside, self._searched = True, len(form.start)
            return [before] if before and not (self._called and before.isspace()) else []
        shown = self._held[: len(self._held) - _overlap(self._held, form.start)]
        if not shown or (self._called and shown.isspace()):
            return None  # white space after a call shows only if more text follows
        self._held = self._held[len(shown) :]
        return [shown]

    def _leave(self, form: ToolFormat) -> list[Found] | None:
        """The calls up to the end mark, or the text if they are none; None while the mark has not come."""
        close = form.end or form.start
        at = self._held.find(close, self._searched)
        if at < 0:
            self._searched = max(len(form.start), len(self._held) - len(close) + 1)
            return None
        stop = at + len(form.end)
        body, whole = self._held[len(form.start) : at], self._held[:stop]
        self._held = self._held[stop:]
        self._inside = False
        return [*self._calls(body)] or [whole]

    def _calls(self, body: str) -> list[ToolCall]:
        """The calls of one stretch; none if any part of it is not well formed."""
        assert self._format is not None
        read = {"glm": _read_glm, "qwen-xml": _read_xml}.get(self._format.name)
        try:
            pairs = _read_json(body) if read is None else read(body, self._types)
        except (ValueError, TypeError, KeyError, RecursionError):
            return []
        if any(name not in self._types for name, _ in pairs):
            return []  # a call of what does not exist is no call
        calls = [ToolCall(_new_id(), name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in pairs]
        self._called = self._called or bool(calls)
        return calls


_PYTHON_TAG = "<|python_tag|>"


def _new_id() -> str:
    return "".join(secrets.choice(_ID_CHARS) for _ in range(_ID_LENGTH))


def _overlap(text: str, mark: str) -> int:
    """Length of the longest end of ``text`` that begins ``mark``."""
    for length in range(min(len(text), len(mark) - 1), 0, -1):
        if text.endswith(mark[:length]):
            return length
    return 0


def _argument_types(tools: str) -> dict[str, dict[str, Any]]:
    """The schema type of each argument of each tool, by name."""
    types: dict[str, dict[str, Any]] = {}
    for tool in json.loads(tools):
        function = tool["function"]
        properties = (function.get("parameters") or {}).get("properties")
        known = properties.items() if isinstance(properties, dict) else ()
        types[function["name"]] = {name: schema.get("type") for name, schema in known if isinstance(schema, dict)}
    return types


def _read_json(body: str) -> list[tuple[str, dict[str, Any]]]:
    """Objects or lists of objects, one after the other. Raises ValueError for anything else."""
    body = body.strip().removeprefix(_PYTHON_TAG).strip()
    named = _NAMED.fullmatch(body)
    if named is not None:
        return [(named[1], _arguments(json.loads(named[2])))]
    decoder = json.JSONDecoder()
    found: list[Any] = []
    at = 0
    while at < len(body):
        value, at = decoder.raw_decode(body, at)
        found += value if isinstance(value, list) else [value]
        while at < len(body) and (body[at].isspace() or body[at] in ";,"):
            at += 1
    return [_pair(entry) for entry in found]


def _pair(entry: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if isinstance(entry.get("function"), dict):  # OpenAI's own nesting, which some models imitate
        entry = entry["function"]
    given = entry["arguments"] if "arguments" in entry else entry.get("parameters", {})
    return entry["name"], _arguments(given)


def _arguments(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        value = json.loads(value)
    if not isinstance(value, dict):
        raise TypeError("arguments are an object")
    return value


def _read_xml(body: str, types: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    found = _FUNCTION.findall(body)
    if not found:
        raise ValueError("no function")
    return [
        (name, {key: _typed(value, types.get(name, {}).get(key)) for key, value in _PARAMETER.findall(inner)})
        for name, inner in found
    ]


def _read_glm(body: str, types: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    name = body.partition("<arg_key>")[0].strip()
    return [(name, {key: _typed(value, types.get(name, {}).get(key)) for key, value in _ARGUMENT.findall(body)})]


def _typed(value: str, kind: object) -> Any:
    """These formats write values without quotes; the tool's schema says which are text."""
    if kind == "string":
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
