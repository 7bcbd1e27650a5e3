"""The engine on real and on tiny checkpoints: what the packed pass computes is what the model means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from app.engine.blocks import BlockPool
from app.engine.engine import Engine
from app.engine.loader import LoadedModel, load
from app.engine.messages import Message, SamplingSpec, Submit
from app.engine.options import LoadOptions
from app.engine.sampler import uniform
from app.engine.scheduler import Limits
from app.errors import ModelError
from tests.kit.engine_world import Listener
from tests.kit.tiny_models import save_tiny


class Loaded:
    def __init__(self, model: LoadedModel, *, blocks: int | None = None) -> None:
        self.pool = BlockPool(blocks or model.blocks, model.block_tokens)
        limits = Limits(model.context_tokens, 32)
        self.engine = Engine(model.backend, model.prompts, self.pool, limits, eos_ids=model.eos_ids)

    def ask(self, *turns: str, session: str | None = None, **sampling: Any) -> Listener:
        messages = tuple(Message("assistant" if i % 2 else "user", turn) for i, turn in enumerate(turns))
        listener = Listener()
        self.engine.submit(Submit(1, messages, SamplingSpec(**{"max_tokens": 24, **sampling}), session), listener)
        return listener

    def run(self) -> None:
        while self.engine.step():
            self.pool.check()


@pytest.fixture(scope="module")
def real(smollm2: Path) -> LoadedModel:
    torch.set_num_threads(2)
    return load(LoadOptions(smollm2))


def test_two_turns_on_the_real_model_compute_only_what_is_new(real: LoadedModel) -> None:
    world = Loaded(real)
    first = world.ask("What is the capital of France?", session="s")
    world.run()
    assert "Paris" in first.text
    before = world.engine.figures()
    second = world.ask("What is the capital of France?", first.text, "And of Italy?", session="s")
    world.run()
    assert "Rome" in second.text
    counts = second.done.counts
    new, _ = real.prompts.vocabulary.encode(
        "<|im_end|>\n<|im_start|>user\nAnd of Italy?<|im_end|>\n<|im_start|>assistant\n", is_template=True
    )
    assert counts.prompt_tokens - counts.cached_tokens <= len(new) + 1
    assert world.engine.figures().prefill_tokens - before.prefill_tokens <= len(new) + 1


def test_greedy_and_seeded_replies_are_the_same_alone_and_in_any_company(real: LoadedModel) -> None:
    prompts = [f"Tell me about the number {number}." for number in range(4)] + ["x9 {]" * 30]
    options = [{"temperature": 0.8, "seed": number} if number % 2 else {} for number in range(5)]
    alone = []
    for prompt, sampling in zip(prompts, options, strict=True):
        world = Loaded(real)
        reply = world.ask(prompt, ignore_eos=True, **sampling)
        world.run()
        alone.append(reply.text)
    world = Loaded(real)
    together = []
    for prompt, sampling in zip(prompts, options, strict=True):
        together.append(world.ask(prompt, ignore_eos=True, **sampling))
        world.engine.step()
    world.run()
    assert [reply.text for reply in together] == alone


def test_preemption_changes_nothing_that_is_said(real: LoadedModel) -> None:
    prompts = [f"Count upwards from {number}." for number in range(4)]
    roomy = Loaded(real)
    expected = [roomy.ask(prompt, max_tokens=40, ignore_eos=True) for prompt in prompts]
    roomy.run()
    tight = Loaded(real, blocks=7)
    replies = [tight.ask(prompt, max_tokens=40, ignore_eos=True) for prompt in prompts]
    tight.run()
    assert tight.engine.figures().preemptions > 0
    assert [reply.text for reply in replies] == [reply.text for reply in expected]


ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "mistral": {"sliding_window": 16},
    "gemma2": {"sliding_window": 16, "query_pre_attn_scalar": 16},
    "gemma3_text": {"sliding_window": 16, "query_pre_attn_scalar": 16},
    "phi3": {},
}


@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_packed_replies_equal_the_models_own_generation(tmp_path: Path, model_type: str) -> None:
    folder = save_tiny(tmp_path, model_type, **ARCHITECTURES[model_type])
    loaded = load(LoadOptions(folder, quantization="none", runner="packed", kv_cache_mb=1))
    assert loaded.runner == "packed"
    prompts = ["hi", "a longer question that fills more than one block of the pool, surely", "three"]
    assert _replies(loaded, prompts) == _plain(folder, loaded, prompts)


def test_a_model_with_a_recurrent_state_runs_one_at_a_time_and_right(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, "lfm2", layer_types=["conv", "full_attention"], block_auto_adjust_ff_dim=False)
    loaded = load(LoadOptions(folder, quantization="none", kv_cache_mb=1))
    assert loaded.runner == "one at a time"
    prompts = ["hi", "a longer question that fills more than one block of the pool, surely"]
    assert _replies(loaded, prompts) == _plain(folder, loaded, prompts)


def test_a_folder_without_a_model_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model at"):
        load(LoadOptions(tmp_path / "absent"))
    with pytest.raises(ModelError, match=str(tmp_path)):
        load(LoadOptions(tmp_path))


def test_a_draw_depends_on_seed_and_position_alone() -> None:
    draws = {uniform(seed, position) for seed in range(20) for position in range(20)}
    assert len(draws) == 400
    assert uniform(3, 4) == uniform(3, 4)
    assert all(0.0 <= draw < 1.0 for draw in draws)


def _replies(loaded: LoadedModel, prompts: list[str]) -> list[str]:
    world = Loaded(loaded)
    listeners = [world.ask(prompt, ignore_eos=True) for prompt in prompts]
    world.run()
    return [listener.text for listener in listeners]


@torch.inference_mode()
def _plain(folder: Path, loaded: LoadedModel, prompts: list[str]) -> list[str]:
    """Greedy, by running the whole text through the untouched model for each token."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    texts = []
    for prompt in prompts:
        ledger, _ = loaded.prompts.build([Message("user", prompt)], Loaded(loaded).engine.sessions.ledger(None))
        ids = list(ledger.ids)
        for _ in range(24):
            logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
            ids.append(int(logits.argmax()))
        text = loaded.prompts.vocabulary.decode(ids[len(ledger.ids) :])
        texts.append(text.rstrip("\ufffd"))
    return texts
