"""What chat templates do to a conversation must not cost the session its keys and values: each turn runs what is new."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.engine.choose import BLOCK_TOKENS
from app.engine.loader import load
from app.engine.options import LoadOptions
from tests.kit.tiny_models import save_tiny
from tests.kit.tiny_world import TinyWorld

pytestmark = pytest.mark.usefixtures("one_thread")

_TURNS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
_SPEAK = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

EXACT = {
    "plain": _TURNS + _SPEAK,
    "strips the thinking of earlier turns": """
{%- for m in messages -%}
<|im_start|>{{ m.role }}
{% if m.role == 'assistant' and '</think>' in m.content -%}
{{ m.content.split('</think>')[-1].lstrip('\n') }}
{%- else -%}
{{ m.content }}
{%- endif %}<|im_end|>
{% endfor %}"""
    + _SPEAK,
    "tells the date": "<|im_start|>system\nToday is {{ strftime_now('%d %B %Y') }}.<|im_end|>\n" + _TURNS + _SPEAK,
    "has a system prompt of its own": (
        "{% if messages[0].role != 'system' %}<|im_start|>system\nYou help people.<|im_end|>\n{% endif %}"
        + _TURNS
        + _SPEAK
    ),
    "trims": _TURNS.replace("m.content", "m.content | trim") + _SPEAK,
    "insists on taking turns": (
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('user and assistant must take turns') }}{% endif %}{% endfor %}" + _TURNS + _SPEAK
    ),
    "folds the system prompt into the first question": """
{%- for m in messages -%}
{%- if m.role == 'system' -%}{{ raise_exception('no system role') }}{%- endif -%}
{%- if m.role == 'user' -%}[INST] {{ m.content }} [/INST]{%- else -%}{{ m.content }}<|im_end|>{%- endif -%}
{%- endfor -%}""",
    "tells of tools at the start": (
        "<|im_start|>system\n{% if tools %}{{ tools | tojson }}{% else %}No tools.{% endif %}<|im_end|>\n"
        + _TURNS
        + _SPEAK
    ),
}

AFTERTHOUGHTS = {
    "opens with empty thinking that is gone a turn later": _TURNS
    + "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n\n</think>\n\n{% endif %}",
    "marks the latest question": """
{%- for m in messages -%}
<|im_start|>{{ m.role }}
{{ m.content }}{% if loop.last %} (now){% endif %}<|im_end|>
{% endfor %}"""
    + _SPEAK,
}
"""What they write about the latest turn changes as soon as it is no longer the latest."""

SLACK = BLOCK_TOKENS + 4
"""A cut inside a block that others may read costs its start anew, and a reply cut inside a letter those bytes."""

QUESTIONS = ("  Who are you?\n", "And what can you do for me on a rainy day?", "Tell me more.", "ok")


@pytest.mark.parametrize("name", EXACT)
def test_a_turn_runs_only_what_is_new(tmp_path: Path, name: str) -> None:
    world = _world(tmp_path, EXACT[name])
    for system in ("", "Answer briefly, and never with a list."):
        for new, ran, _ in _conversation(world, system):
            assert ran <= new + SLACK


@pytest.mark.parametrize("name", AFTERTHOUGHTS)
def test_a_template_that_rewrites_the_latest_turn_costs_that_turn_and_none_before(tmp_path: Path, name: str) -> None:
    for new, ran, last_turn in _conversation(_world(tmp_path, AFTERTHOUGHTS[name]), "Answer briefly."):
        assert ran <= new + last_turn + SLACK


def test_several_messages_in_a_row_cost_only_the_latest(tmp_path: Path) -> None:
    world = _world(tmp_path, EXACT["insists on taking turns"])
    first = world.answered("Wait", session="s")
    # The reply was cut before anything was heard: the user goes on.
    second = world.answered("Wait\nno, tell me the time", session="s")
    assert first.done.counts.prompt_tokens - BLOCK_TOKENS <= second.done.counts.cached_tokens


def _conversation(world: TinyWorld, system: str) -> list[tuple[int, int, int]]:
    """For each turn after the first: tokens that are new, tokens that were run, tokens of the turn before."""
    turns: list[str] = []
    costs: list[tuple[int, int, int]] = []
    before = None
    for question in QUESTIONS:
        turns.append(question)
        reply = world.answered(*turns, session=f"s{system}", system=system, max_tokens=12, ignore_eos=True)
        turns.append(reply.text)
        counts = reply.done.counts
        ran = counts.prompt_tokens - counts.cached_tokens
        if before is not None:
            known = before.prompt_tokens + before.completion_tokens
            costs.append((counts.prompt_tokens - known, ran, len(turns[-4]) + before.completion_tokens + 40))
        before = counts
    assert len(costs) == len(QUESTIONS) - 1
    return costs


def _world(folder: Path, template: str) -> TinyWorld:
    save_tiny(folder, "llama", template=template)
    return TinyWorld(load(LoadOptions(folder, quantization="none", kv_cache_mb=4)))
