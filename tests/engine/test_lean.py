"""The lean runners on tiny checkpoints of each family: what they compute is what the model means, in any company."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from app.engine import lean
from app.engine.attention import KvPool
from app.engine.lean_runner import LeanRunner
from app.engine.loader import load
from app.engine.messages import SamplingSpec
from app.engine.native import build
from app.engine.native.bindings import Kernels
from app.engine.native.runner import NativeRunner
from app.engine.options import LoadOptions
from app.engine.runner import Runner
from app.engine.sequence import Chunk, Sequence
from app.errors import ModelError
from tests.kit.tiny_models import save_tiny

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": 16},
    "qwen2": {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1},
    "qwen3": {},
    "smollm3": {"no_rope_layers": [1, 0], "tie_word_embeddings": False},
}
BLOCKS = 12
LENGTHS = (70, 33, 5)


def native(model: Any, *, int8: bool = False, threads: int = 2) -> NativeRunner:
    return NativeRunner(Kernels(build.library()), lean.read(model, 512), BLOCKS, threads, int8=int8)


def through_torch(model: Any) -> LeanRunner:
    plan = lean.read(model, 512)
    shapes = [(plan.kv_heads, plan.head_dim, plan.head_dim)] * len(plan.layers)
    return LeanRunner(plan, KvPool(shapes, BLOCKS, 32, model.dtype, "cpu"))


def tiny(folder: Path, family: str, dtype: torch.dtype) -> Any:
    save_tiny(folder, family, **FAMILIES[family])
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval().requires_grad_(False)


def prompts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(260, (length,), generator=generator).tolist() for length in LENGTHS]


def sequences() -> list[Sequence]:
    tables = ([7, 2, 9], [4, 5], [0])
    return [
        Sequence(number, ids, len(ids), SamplingSpec(), 0, 0.0, blocks=list(blocks))
        for number, (ids, blocks) in enumerate(zip(prompts(), tables, strict=True))
    ]


def ragged(runner: Runner) -> Tensor:
    """Last logits of the three prompts, computed in chunks that share steps, the last tokens as a decode would."""
    long, middle, short = sequences()
    runner.run([Chunk(long, 0, 40), Chunk(short, 0, 4)])
    runner.run([Chunk(middle, 0, 32), Chunk(long, 40, 29)])
    logits = runner.run([Chunk(long, 69, 1), Chunk(middle, 32, 1), Chunk(short, 4, 1)])
    assert logits is not None
    return logits.float().clone()


@torch.inference_mode()
def plain(model: Any) -> Tensor:
    return torch.stack([model(torch.tensor([ids]), use_cache=False).logits[0, -1].float() for ids in prompts()])


def deviation(got: Tensor, expected: Tensor) -> float:
    return float(((got - expected).square().mean(-1).sqrt() / expected.std(-1)).max())


@pytest.mark.parametrize("family", FAMILIES)
def test_through_torch_the_logits_are_the_models(tmp_path: Path, family: str) -> None:
    model = tiny(tmp_path, family, torch.float32)
    assert deviation(ragged(through_torch(model)), plain(model)) < 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_the_native_logits_differ_from_the_models_by_rounding_only(tmp_path: Path, family: str) -> None:
    model = tiny(tmp_path, family, torch.bfloat16)
    got = ragged(native(model))
    # The same bf16 weights in float32: what the model means.
    assert deviation(got, plain(model.float())) < 0.03


@pytest.mark.parametrize("int8", [False, True])
def test_a_row_is_the_same_to_the_bit_alone_in_company_and_in_any_chunks(tmp_path: Path, int8: bool) -> None:
    model = tiny(tmp_path, "qwen3", torch.bfloat16)
    together = ragged(native(model, int8=int8))
    for threads in (1, 3):
        runner = native(model, int8=int8, threads=threads)
        for number, sequence in enumerate(sequences()):
            alone = runner.run([Chunk(sequence, 0, len(sequence.ids))])
            assert alone is not None
            assert torch.equal(alone[0], together[number])


@pytest.mark.parametrize("processor", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the generations are those of x86")
def test_processors_without_bf16_instructions_compute_the_same_to_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processor: str
) -> None:
    # x86-64-v4 runs where AVX-512 is; the older two run on any machine that has it too.
    if processor == "x86-64-v4" and "avx512f" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no AVX-512")
    model = tiny(tmp_path, "qwen2", torch.bfloat16)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    flags = tuple(flag if "march" not in flag else f"-march={processor}" for flag in build._FLAGS)
    monkeypatch.setattr(build, "_FLAGS", flags)
    for int8 in (False, True):
        reference = plain(model.float())
        got = ragged(native(model.bfloat16(), int8=int8))
        assert deviation(got, reference) < (0.1 if int8 else 0.03)


def test_many_rows_take_other_tiles_and_change_nothing(tmp_path: Path) -> None:
    model = tiny(tmp_path, "llama", torch.bfloat16)
    runner = native(model)
    first = sequences()[2]
    runner.run([Chunk(first, 0, 4)])
    alone = runner.run([Chunk(first, 4, 1)])
    assert alone is not None
    expected = alone.clone()
    for company in range(1, 11):
        others = [
            Sequence(9 + number, first.ids[: 1 + number % 4], 9, SamplingSpec(), 0, 0.0, blocks=[1 + number])
            for number in range(company)
        ]
        chunks = [Chunk(other, 0, len(other.ids)) for other in others] + [Chunk(first, 4, 1)]
        got = runner.run(chunks)
        assert got is not None
        assert torch.equal(got[-1], expected[0])


def test_int8_weights_are_the_rounded_ones_and_inputs_keep_their_precision(tmp_path: Path) -> None:
    model = tiny(tmp_path, "llama", torch.bfloat16)
    got = ragged(native(model, int8=True))
    rounded = model.float()
    for module in rounded.modules():
        if isinstance(module, torch.nn.Linear | torch.nn.Embedding):
            step = module.weight.abs().amax(1, keepdim=True).clamp(min=1e-9) / 127
            module.weight.data = (module.weight / step).round() * step
    assert deviation(got, plain(rounded)) < 0.03


def test_gates_far_from_zero_are_closed_or_open_and_never_not_a_number(tmp_path: Path) -> None:
    model = tiny(tmp_path, "llama", torch.bfloat16)
    for layer in model.model.layers:
        layer.mlp.gate_proj.weight.data *= 256  # gates in the hundreds, far beyond what exp can take
    assert deviation(ragged(native(model)), plain(model.float())) < 0.03


def test_what_freed_blocks_held_leaves_no_trace(tmp_path: Path) -> None:
    model = tiny(tmp_path, "mistral", torch.bfloat16)
    clean = ragged(native(model))
    runner = native(model)
    for tensor in runner._tensors:
        if tensor.dtype == torch.bfloat16 and tensor.numel() == 2 * BLOCKS * 32 * 32:  # values: 2 heads, padded to 32
            tensor.fill_(float("nan"))
        if tensor.dtype == torch.bfloat16 and tensor.numel() == 2 * BLOCKS * 32 * 16:  # keys
            tensor.fill_(float("nan"))
    assert torch.equal(ragged(runner), clean)


def test_a_step_that_draws_nothing_has_no_logits(tmp_path: Path) -> None:
    model = tiny(tmp_path, "llama", torch.bfloat16)
    for make in (native, through_torch):
        assert make(model).run([Chunk(sequences()[0], 0, 40)]) is None


def test_without_a_compiler_the_model_runs_through_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_tiny(tmp_path, "llama")
    assert load(LoadOptions(tmp_path, kv_cache_mb=8)).runner == "native"
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    assert load(LoadOptions(tmp_path, kv_cache_mb=8)).runner == "lean"
    with pytest.raises(ModelError, match="no C compiler.*gcc"):
        load(LoadOptions(tmp_path, kv_cache_mb=8, quantization="int8"))


def test_without_a_home_the_model_runs_through_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_tiny(tmp_path, "llama")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "config.json"))  # a file, not a folder
    assert load(LoadOptions(tmp_path, kv_cache_mb=8)).runner == "lean"


def test_what_does_not_build_is_reported_with_the_compilers_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "kernels.c"
    broken.write_text("this is no C")
    monkeypatch.setattr(build, "SOURCE", broken)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ModelError, match="could not build the native kernels: .*error"):
        build.library()
    assert not list(tmp_path.glob("**/*.so"))


@pytest.mark.parametrize(
    ("family", "changes", "why"),
    [
        ("llama", {"hidden_act": "gelu"}, "activation gelu"),
        ("llama", {"mlp_bias": True}, "biases in the MLP"),
        ("gemma2", {}, "model type gemma2"),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}, "rotary embedding"),
    ],
)
def test_models_that_are_built_otherwise_are_told_apart(
    tmp_path: Path, family: str, changes: dict[str, Any], why: str
) -> None:
    save_tiny(tmp_path, family, **changes)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    with pytest.raises(lean.NotLean, match=why):
        lean.read(model, 512)
