"""Many sessions on real, tiny models: what each hears is what a fresh run on its own tokens would say."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from app.engine.choose import BLOCK_TOKENS
from app.engine.loader import LoadedModel, load
from app.engine.options import LoadOptions
from tests.kit.architectures import ALONE, PACKED, tiny_model
from tests.kit.tiny_models import save_tiny
from tests.kit.tiny_world import Reply, TinyWorld, greedy

KINDS = {"llama": PACKED["llama"], "gemma3_text": PACKED["gemma3_text"], "lfm2": ALONE["lfm2"]}
"""One for the plainest runner, one whose windows slide, one with a state of its own."""
SESSIONS = 16


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("model_type", KINDS)
def test_sixteen_secrets_stay_apart_through_eviction_preemption_and_cancels(tmp_path: Path, model_type: str) -> None:
    changes = KINDS[model_type]
    world = TinyWorld(_load(tmp_path, model_type, changes), blocks=60)
    model = tiny_model(model_type, **changes)
    chance = random.Random(7)
    secrets = {f"s{index}": f"{chance.randrange(10**8):08d}" for index in range(SESSIONS)}
    turns: dict[str, list[str]] = {name: [f"Keep {secret} to yourself."] for name, secret in secrets.items()}
    for question, max_tokens in (("What was it?", 80), ("And now?", 20), ("", 12)):
        replies = _all_at_once(world, turns, chance, max_tokens)
        for name, reply in replies.items():
            prompt, said = world.said(name, reply)
            heard = world.loaded.prompts.vocabulary.decode(prompt)
            assert [other for other, secret in secrets.items() if secret in heard] == [name]
            assert said == greedy(model, prompt, said)
            turns[name] += [reply.text, question]
    figures = world.engine.figures()
    assert figures.preemptions > 0
    assert figures.cached_tokens > 0
    assert figures.cancelled > 0
    if model_type != "lfm2":
        assert figures.evictions > 0


@pytest.mark.parametrize("model_type", ["gemma3_text", "gpt_oss", "llama4_text", "mistral"])
def test_layers_with_a_window_keep_their_sessions_too(tmp_path: Path, model_type: str) -> None:
    changes = PACKED[model_type]
    world = TinyWorld(_load(tmp_path, model_type, changes))
    model = tiny_model(model_type, **changes)
    first = world.answered("a question that is a good deal longer than any window", session="s", ignore_eos=True)
    second = world.answered("a question that is a good deal longer than any window", first.text, "and", session="s")
    known = first.done.counts.prompt_tokens + first.done.counts.completion_tokens
    counts = second.done.counts
    assert counts.prompt_tokens - counts.cached_tokens <= counts.prompt_tokens - known + BLOCK_TOKENS + 4
    prompt, said = world.said("s", second)
    assert said == greedy(model, prompt, said)


def _all_at_once(
    world: TinyWorld, turns: dict[str, list[str]], chance: random.Random, max_tokens: int
) -> dict[str, Reply]:
    """One reply for each session; a few are cancelled on the way and heard as far as they came."""
    options: dict[str, Any] = {"max_tokens": max_tokens, "ignore_eos": True}
    replies = {name: world.ask(*said, session=name, **options) for name, said in turns.items()}
    doomed = chance.sample(list(replies), 3)
    for _ in range(12):
        world.engine.step()
        world.pool.check()
    for name in doomed:
        world.engine.cancel(replies[name].key)
    world.run()
    return {name: reply for name, reply in replies.items() if reply.done.counts.completion_tokens}


def _load(folder: Path, model_type: str, changes: dict[str, Any]) -> LoadedModel:
    return load(LoadOptions(save_tiny(folder, model_type, **changes), quantization="none", kv_cache_mb=4))
