"""The engine on the real checkpoint, and the choice of runner: what is computed together is what the model means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from app.engine.loader import LoadedModel, load
from app.engine.options import LoadOptions, RunnerName
from app.engine.sampler import uniform
from app.errors import ModelError
from tests.kit.architectures import ALONE, PACKED, tiny_model
from tests.kit.tiny_models import save_tiny
from tests.kit.tiny_world import TinyWorld, greedy


@pytest.fixture(scope="module")
def real(smollm2: Path) -> Iterator[LoadedModel]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield load(LoadOptions(smollm2))
    torch.set_num_threads(before)


def test_two_turns_on_the_real_model_compute_only_what_is_new(real: LoadedModel) -> None:
    world = TinyWorld(real)
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
        world = TinyWorld(real)
        reply = world.ask(prompt, ignore_eos=True, **sampling)
        world.run()
        alone.append(reply.text)
    world = TinyWorld(real)
    together = []
    for prompt, sampling in zip(prompts, options, strict=True):
        together.append(world.ask(prompt, ignore_eos=True, **sampling))
        world.engine.step()
    world.run()
    assert [reply.text for reply in together] == alone


def test_preemption_changes_nothing_that_is_said(real: LoadedModel) -> None:
    prompts = [f"Count upwards from {number}." for number in range(4)]
    roomy = TinyWorld(real)
    expected = [roomy.ask(prompt, max_tokens=40, ignore_eos=True) for prompt in prompts]
    roomy.run()
    tight = TinyWorld(real, blocks=7)
    replies = [tight.ask(prompt, max_tokens=40, ignore_eos=True) for prompt in prompts]
    tight.run()
    assert tight.engine.figures().preemptions > 0
    assert [reply.text for reply in replies] == [reply.text for reply in expected]


RUNNERS = {
    "llama": ("lean", "packed", "single"),
    "qwen3": ("lean", "packed", "single"),
    "gemma3_text": ("packed", "single"),
    "phi3": ("packed", "single"),
    "lfm2": ("single",),
}
"""The first is what "auto" chooses in float32."""
PROMPTS = ("hi", "a longer question that fills more than one block of the pool, surely", "three")


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("model_type", RUNNERS)
def test_every_runner_that_takes_a_model_says_what_the_model_says(tmp_path: Path, model_type: str) -> None:
    changes = {**PACKED, **ALONE}[model_type]
    folder = save_tiny(tmp_path, model_type, **changes)
    model = tiny_model(model_type, **changes)
    first, *_ = RUNNERS[model_type]
    assert _load(folder, "auto").runner == _load(folder, first).runner
    for runner in RUNNERS[model_type]:
        world = TinyWorld(_load(folder, runner))
        replies = {prompt: world.ask(prompt, session=prompt, ignore_eos=True) for prompt in PROMPTS}
        world.run()
        for prompt, reply in replies.items():
            ids, said = world.said(prompt, reply)
            assert said == greedy(model, ids, said), runner


@pytest.mark.usefixtures("one_thread")
def test_a_runner_that_does_not_fit_is_refused_with_the_reason(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, "lfm2", **ALONE["lfm2"])
    with pytest.raises(ModelError, match=r"llm\.runner packed"):
        _load(folder, "packed")


def test_a_folder_without_a_model_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model at"):
        load(LoadOptions(tmp_path / "absent"))
    with pytest.raises(ModelError, match=str(tmp_path)):
        load(LoadOptions(tmp_path))


def test_a_gguf_file_is_for_the_catalogue_to_convert(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"tiny\.gguf is a file.*catalog"):
        load(LoadOptions(tmp_path / "tiny.gguf"))


def test_a_draw_depends_on_seed_and_position_alone() -> None:
    draws = {uniform(seed, position) for seed in range(20) for position in range(20)}
    assert len(draws) == 400
    assert uniform(3, 4) == uniform(3, 4)
    assert all(0.0 <= draw < 1.0 for draw in draws)


def _load(folder: Path, runner: RunnerName) -> LoadedModel:
    return load(LoadOptions(folder, quantization="none", runner=runner, kv_cache_mb=2))
