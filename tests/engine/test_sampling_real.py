"""Sampling, schemas and text together, on the real model."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from app.engine.loader import LoadedModel, load
from app.engine.messages import Delta
from app.engine.options import LoadOptions
from tests.kit.tiny_world import Reply, TinyWorld

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 60, "maxLength": 80},
        "age": {"type": "integer", "minimum": 1, "maximum": 99},
        "likes": {"type": "array", "items": {"enum": ["tea", "coffee", "水"]}, "minItems": 1, "maxItems": 2},
    },
    "required": ["name", "age", "likes"],
    "additionalProperties": False,
}
PROMPTS = [
    "Describe a person as JSON.",
    "Invent somebody who lives by the sea, as JSON. " * 4,
    "Name a king.",
    "zxq ~~~ 0x00 \u2603 \u2603 \u2603 !!!! ???? " * 6,
]


@pytest.fixture(scope="module")
def loaded(smollm2: Path) -> LoadedModel:
    return load(LoadOptions(smollm2, kv_cache_mb=32, context_tokens=1024))


def ask(world: TinyWorld, prompt: str, number: int, **sampling: Any) -> Reply:
    return world.ask(prompt, seed=number, temperature=0.9, top_p=0.95, repetition_penalty=1.1, **sampling)


def test_replies_satisfy_their_schema_and_preemption_changes_none_of_them(loaded: LoadedModel) -> None:
    def texts(world: TinyWorld) -> list[str]:
        replies = [
            ask(world, prompt, number, json_schema=json.dumps(SCHEMA), max_tokens=120)
            for number, prompt in enumerate(PROMPTS)
        ]
        world.run()
        assert [reply.done.reason for reply in replies] == ["stop"] * len(PROMPTS)
        return [reply.text for reply in replies]

    roomy, tight = TinyWorld(loaded), TinyWorld(loaded, blocks=10)
    said = texts(roomy)
    assert texts(tight) == said
    assert roomy.engine.scheduler.preemptions == 0
    assert tight.engine.scheduler.preemptions > 0
    for text in said:
        person = json.loads(text)
        assert list(person) == ["name", "age", "likes"]
        assert 60 <= len(person["name"]) <= 80
        assert 1 <= person["age"] <= 99
        assert set(person["likes"]) <= {"tea", "coffee", "水"}
        assert 1 <= len(person["likes"]) <= 2


def test_a_seeded_reply_is_the_same_alone_and_among_strangers(loaded: LoadedModel) -> None:
    alone = []
    for number, prompt in enumerate(PROMPTS):
        world = TinyWorld(loaded)
        reply = ask(world, prompt, number, logprobs=3, max_tokens=8)
        world.run()
        alone.append([event for event in reply.events if isinstance(event, Delta)])
    world = TinyWorld(loaded)
    for number in range(4):
        world.ask("Tell me a story. " * (3 * number + 1), temperature=number / 2, max_tokens=10)
    replies = [ask(world, prompt, number, logprobs=3, max_tokens=8) for number, prompt in enumerate(PROMPTS)]
    world.run()
    assert [[event for event in reply.events if isinstance(event, Delta)] for reply in replies] == alone


def test_log_probabilities_of_a_reply_are_those_of_its_tokens(loaded: LoadedModel) -> None:
    world = TinyWorld(loaded)
    reply = world.answered("Say hello.", logprobs=2, max_tokens=8)
    entries = [entry for event in reply.events if isinstance(event, Delta) for entry in event.logprobs]
    assert len(entries) == reply.done.counts.completion_tokens
    assert "".join(entry.token for entry in entries) == reply.text
    for entry in entries:
        assert entry.top[0] == (entry.token, entry.raw, pytest.approx(entry.logprob)), "greedy draws the likeliest"
        assert math.exp(entry.top[0][2]) + math.exp(entry.top[1][2]) <= 1.0 + 1e-6


def test_a_schema_that_cannot_be_used_is_refused_before_anything_runs(loaded: LoadedModel) -> None:
    world = TinyWorld(loaded)
    refused = world.answered("hi", json_schema='{"type":"nonsense"}')
    assert refused.failed.code == "invalid_request"
    assert "nonsense" in refused.failed.message
    assert world.engine.figures().steps == 0
