from __future__ import annotations

import json
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.tools import FORMATS, tool_format
from app.llm import Finished, LlmEvent, TextDelta, TokenLogprob, ToolCall, Usage
from app.llm.tool_calls import ToolCallReader, with_tool_calls

TOOLS = json.dumps(
    [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                },
            },
        },
        {"type": "function", "function": {"name": "now"}},
    ]
)
WEATHER = ("get_weather", {"city": "Paris", "days": 2})
NOW = ("now", {})
HERMES = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'

WELL_FORMED = {
    "hermes": (
        "Let me look.\n" + HERMES + '\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
        [WEATHER, NOW],
    ),
    "qwen-xml": (
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
        "</function>\n</tool_call>",
        [WEATHER],
    ),
    "glm": (
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n"
        "<arg_value>2</arg_value>\n</tool_call>",
        [WEATHER],
    ),
    "mistral": (
        '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}, {"name": "now"}]',
        [WEATHER, NOW],
    ),
    "phi4": (
        '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}]<|/tool_call|>',
        [WEATHER],
    ),
    "granite": ('<|tool_call|>[{"name": "now", "arguments": {}}]', [NOW]),
    "nemotron": ('<TOOLCALL>[{"name": "now", "arguments": {}}]</TOOLCALL>', [NOW]),
    "tool-calls": (
        '<tool_calls>\n{"name": "now", "arguments": {}}\n{"name": "now", "arguments": {}}\n</tool_calls>',
        [NOW, NOW],
    ),
    "llama3": (
        '{"name": "get_weather", "parameters": {"city": "Paris", "days": 2}}; {"name": "now", "parameters": {}}',
        [WEATHER, NOW],
    ),
}


def read(format_name: str, pieces: list[str]) -> tuple[str, list[tuple[str, object]]]:
    reader = ToolCallReader(format_name, TOOLS)
    found = [entry for piece in pieces for entry in reader.push(piece)]
    found += reader.finish()
    text = "".join(entry for entry in found if isinstance(entry, str))
    return text, [(entry.name, json.loads(entry.arguments)) for entry in found if isinstance(entry, ToolCall)]


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[left:right] for left, right in zip(edges, edges[1:], strict=False)]


def test_every_format_that_is_known_is_tried_here() -> None:
    assert set(WELL_FORMED) == {known.name for known in FORMATS}


@pytest.mark.parametrize("name", WELL_FORMED)
@settings(max_examples=30, deadline=None)
@given(places=st.lists(st.integers(0, 400), max_size=12))
def test_calls_are_found_however_the_text_is_cut(name: str, places: list[int]) -> None:
    text, calls = WELL_FORMED[name]
    shown, found = read(name, cut(text, places))
    assert found == calls
    assert shown.strip() == text.partition(HERMES)[0].strip() if name == "hermes" else not shown.strip()


@pytest.mark.parametrize("name", WELL_FORMED)
@given(st.text(st.sampled_from('ab <>[]{}|/"_\ntool_callTOOLCALLS😀')), st.lists(st.integers(0, 400), max_size=6))
def test_what_is_no_call_comes_through_to_the_letter(name: str, text: str, places: list[int]) -> None:
    assert read(name, cut(text, places)) == (text, [])


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": </tool_call>',
        '<tool_call>\n{"name": "get_weather", "arguments": [1]}\n</tool_call>',
        '<tool_call>\n{"arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": "delete_everything", "arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": "now", "argum',
        "<tool_call></tool_call>",
        "<tool_call>" + "[" * 5000 + "</tool_call>",
        "the tag <tool_call> is how it begins",
    ],
)
def test_a_malformed_call_comes_through_as_text(text: str) -> None:
    assert read("hermes", [text]) == (text, [])


def test_text_after_a_malformed_call_is_still_searched() -> None:
    broken = "<tool_call>{]</tool_call>"
    text, calls = read("hermes", list(broken + HERMES))
    assert text == broken
    assert calls == [WEATHER]


def test_text_before_a_call_does_not_wait_for_it() -> None:
    reader = ToolCallReader("hermes", TOOLS)
    assert list(reader.push("Let me look. <too")) == ["Let me look. "]
    assert list(reader.push("th>")) == ["<tooth>"]


def test_mistrals_newer_form_names_the_tool_before_its_arguments() -> None:
    text = '[TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]{"city": "Paris", "days": 2}[TOOL_CALLS]now[ARGS]{}'
    assert read("mistral", list(text)) == ("", [WEATHER, NOW])


def test_a_llama_reply_that_is_no_json_streams_at_once() -> None:
    reader = ToolCallReader("llama3", TOOLS)
    assert list(reader.push("It is ")) == ["It is "]
    assert list(reader.push("{sunny}")) == ["{sunny}"]


def test_text_typed_as_a_string_stays_one() -> None:
    text = "<tool_call><function=get_weather><parameter=city>75001</parameter></function></tool_call>"
    assert read("qwen-xml", [text])[1] == [("get_weather", {"city": "75001"})]


def test_ids_are_such_that_every_template_takes_them_back() -> None:
    ids = {
        call.id
        for _ in range(50)
        for call in ToolCallReader("hermes", TOOLS).push(HERMES)
        if isinstance(call, ToolCall)
    }
    assert len(ids) == 50
    assert all(len(entry) == 9 and entry.isalnum() for entry in ids)


def test_formats_are_told_apart_by_their_templates() -> None:
    assert tool_format("{% for m in messages %}{{ m.content }}{% endfor %}") == ""
    assert tool_format('{% if tools %}<tool_call>{"name": {% endif %}') == "hermes"
    assert tool_format('{% if xml_tools %}<tool_call>{"name": {% endif %}') == "hermes"
    assert tool_format("{% if tools %}<tool_call><function={% endif %}") == "qwen-xml"
    assert tool_format("{% if tools %}[AVAILABLE_TOOLS]{% endif %}[TOOL_CALLS]") == "mistral"
    assert tool_format("{% if tools %}some way of its own{% endif %}") == ""


async def test_log_probabilities_of_held_text_are_not_lost() -> None:
    end = Finished("stop", Usage(1, 0, 2))

    async def events() -> AsyncGenerator[LlmEvent, None]:
        for piece in ("Hi ", HERMES[:20], HERMES[20:]):
            yield TextDelta(piece, 1, (TokenLogprob(piece, piece.encode(), -1.0),))
        yield end

    got = [event async for event in with_tool_calls(events(), "hermes", TOOLS)]
    logprobs = [entry.token for event in got if isinstance(event, TextDelta) for entry in event.logprobs]
    assert logprobs == ["Hi ", HERMES[:20], HERMES[20:]]
    assert [type(event) for event in got].count(ToolCall) == 1
    assert got[-1] == end
