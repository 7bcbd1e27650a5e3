"""The ways in which models write tool calls, told apart by their chat templates.

The worker needs to know whether the template takes tools, and which control tokens must not vanish
from the text; reading the calls is the client's side (app/llm/tool_calls.py).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """``start`` opens a call or a list of calls, ``end`` closes it; without one it ends with the reply."""

    name: str
    signs: tuple[str, ...]
    """What a template must contain to be of this format: all of them."""
    start: str = ""
    end: str = ""
    inner: tuple[str, ...] = ()
    """Further control tokens inside a call."""

    @property
    def marks(self) -> frozenset[str]:
        return frozenset(mark for mark in (self.start, self.end, *self.inner) if mark)


FORMATS = (
    # Mistral: a JSON list, or since 2025 name[ARGS]{...} for each call.
    ToolFormat("mistral", ("[TOOL_CALLS]",), "[TOOL_CALLS]", inner=("[ARGS]", "[CALL_ID]")),
    # GLM: the name, then <arg_key> and <arg_value> in turn.
    ToolFormat("glm", ("<tool_call>", "<arg_key>"), "<tool_call>", "</tool_call>"),
    # Qwen3-Coder, Qwen3.5, Nemotron 3: <function=name> with <parameter=name> elements.
    ToolFormat("qwen-xml", ("<tool_call>", "<function="), "<tool_call>", "</tool_call>"),
    # Apriel, MiniMax M1: JSON objects one after the other, or a list.
    ToolFormat("tool-calls", ("<tool_calls>",), "<tool_calls>", "</tool_calls>"),
    # Hermes, Qwen2.5, Qwen3, SmolLM3, Granite 4: one JSON object.
    ToolFormat("hermes", ("<tool_call>", '"name"'), "<tool_call>", "</tool_call>"),
    # Phi-4 mini closes its list, Granite 3 does not.
    ToolFormat("phi4", ("<|tool_call|>", "<|/tool_call|>"), "<|tool_call|>", "<|/tool_call|>"),
    ToolFormat("granite", ("<|tool_call|>",), "<|tool_call|>"),
    ToolFormat("nemotron", ("<TOOLCALL>",), "<TOOLCALL>", "</TOOLCALL>"),
    # Llama 3: the whole reply is one JSON object.
    ToolFormat("llama3", ('"parameters": dictionary of argument name',), inner=("<|python_tag|>",)),
)
"""In the order in which they are tried: the more special first."""


def tool_format(template: str) -> str:
    """The name of the format that a chat template teaches; "" if it takes no tools, or in a way that is not known."""
    if "tools" not in template:
        return ""
    written = template.replace('\\"', '"')
    return next((known.name for known in FORMATS if all(sign in written for sign in known.signs)), "")


def format_named(name: str) -> ToolFormat | None:
    return next((known for known in FORMATS if known.name == name), None)


def marks_of(name: str) -> frozenset[str]:
    """Control tokens that a reply's text must show, for its calls to be found."""
    known = format_named(name)
    return known.marks if known is not None else frozenset()
