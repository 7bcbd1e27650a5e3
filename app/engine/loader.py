"""Loads a causal language model from disk and chooses the runner that is right for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.utils.logging import disable_progress_bar

from app.engine import attention
from app.engine.attention import KvPool
from app.engine.messages import SamplingSpec
from app.engine.options import LoadOptions
from app.engine.prompt import PromptBuilder, Vocabulary
from app.engine.runner import Backend, PackedRunner, Runner, SingleRunner
from app.engine.sequence import Chunk, Sequence
from app.errors import ModelError

log = logging.getLogger(__name__)
disable_progress_bar()  # it would draw over the lines of whoever started the worker

BLOCK_TOKENS = 32
_CHECK_BLOCKS = 3
"""What the self-check needs; a smaller pool would be of no use either."""
_PROBE = "parley_probe"
_LARGEST_DEVIATION = {torch.float32: 1e-3, torch.bfloat16: 0.08, torch.float16: 0.02}
"""Root mean square difference between packed and plain logits, in standard deviations of the logits."""

Shape = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LoadedModel:
    backend: Backend
    prompts: PromptBuilder
    eos_ids: frozenset[int]
    context_tokens: int
    blocks: int
    block_tokens: int
    runner: str
    device: str
    dtype: str


def load(options: LoadOptions) -> LoadedModel:
    """Raises ModelError if the folder holds no usable model."""
    options.check()
    device = _device(options.device)
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "auto": torch.bfloat16}[options.dtype]
    try:
        tokenizer, model = _read(options.path, dtype)
    except Exception as error:
        raise ModelError(f"{options.path} cannot be loaded as a causal language model: {error}") from error
    model.to(device).eval().requires_grad_(False)
    context = min(options.context_tokens, int(getattr(model.config, "max_position_embeddings", 1 << 30)))
    runner, blocks = _choose_runner(model, device, dtype, options.kv_cache_mb, context)
    return LoadedModel(
        backend=Backend(runner),
        prompts=_prompt_builder(tokenizer, options.path, context),
        eos_ids=_eos_ids(model, tokenizer),
        context_tokens=context,
        blocks=blocks,
        block_tokens=BLOCK_TOKENS,
        runner=runner.name,
        device=device,
        dtype=str(dtype).removeprefix("torch."),
    )


def _device(wanted: str) -> str:
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        raise ModelError(f'llm.device is "{wanted}", but no CUDA device is usable here: set it to "auto" or "cpu"')
    return wanted


def _read(path: Path, dtype: torch.dtype) -> tuple[Any, Any]:
    if path.suffix == ".gguf":
        folder, name = str(path.parent), path.name
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
        # Packed GGUF weights would be unpacked again in every step.
        model = AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=name, dtype=dtype, quantization_config=GgufConfig(dequantize=True)
        )
        return tokenizer, model.to(dtype)
    tokenizer = AutoTokenizer.from_pretrained(str(path), local_files_only=True)
    return tokenizer, AutoModelForCausalLM.from_pretrained(str(path), dtype=dtype, local_files_only=True)


def _prompt_builder(tokenizer: Any, path: Path, context: int) -> PromptBuilder:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError(f"{path} has no fast tokeniser: add its tokenizer.json")
    render: Callable[[list[dict[str, str]]], str] | None = None
    if tokenizer.chat_template:

        def render(messages: list[dict[str, str]]) -> str:
            text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            return text

    opens_with_bos = tokenizer.bos_token_id is not None and tokenizer("a").input_ids[0] == tokenizer.bos_token_id
    bos = tokenizer.bos_token if opens_with_bos else ""
    return PromptBuilder(Vocabulary(backend), render, bos=bos, context_tokens=context)


def _eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    ids: set[int] = set()
    for source in (getattr(model, "generation_config", None), model.config, tokenizer):
        found = getattr(source, "eos_token_id", None)
        ids.update(found if isinstance(found, list) else [found] if found is not None else [])
    return frozenset(ids)


def _choose_runner(model: Any, device: str, dtype: torch.dtype, kv_cache_mb: int, context: int) -> tuple[Runner, int]:
    own_attention = model.config._attn_implementation
    vocabulary = int(model.get_input_embeddings().num_embeddings)
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randint(vocabulary, (length,), generator=generator).tolist() for length in (40, 11))
    try:
        expected = torch.cat([_plain_logits(model, ids, device) for ids in (first, second)])
        shapes = _kv_shapes(model, device)
    except Exception as error:  # whatever a model raises here, it can still run its own way
        log.info("llm.runner", extra={"why": f"the model does not take another attention: {error}"})
        shapes = None
    if shapes is not None:
        block_bytes = sum(heads * (k + v) for heads, k, v in shapes) * BLOCK_TOKENS * dtype.itemsize
        blocks = max(_CHECK_BLOCKS, kv_cache_mb * 1024 * 1024 // block_bytes)
        model.set_attn_implementation(attention.NAME)
        runner = PackedRunner(model, KvPool(shapes, blocks, BLOCK_TOKENS, dtype, device))
        deviation = _deviation(runner, first, second, expected)
        if deviation <= _LARGEST_DEVIATION[dtype]:
            return runner, blocks
        log.warning("llm.runner", extra={"why": f"packed logits are off by {deviation:.3f}: one sequence at a time"})
    model.set_attn_implementation(own_attention)
    return SingleRunner(model, device), 64 * -(-context // BLOCK_TOKENS)


@torch.inference_mode()
def _plain_logits(model: Any, ids: list[int], device: str) -> Tensor:
    output = model(input_ids=torch.tensor([ids], device=device), use_cache=False)
    logits: Tensor = output.logits
    return logits[0, -1:].float()


@torch.inference_mode()
def _kv_shapes(model: Any, device: str) -> list[Shape] | None:
    """Heads, key width and value width of each layer, as the attention function gets them; None if a layer has none."""
    shapes: dict[int, Shape] = {}

    def probe(
        module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, None]:
        shapes[int(module.layer_idx)] = (key.shape[1], key.shape[-1], value.shape[-1])  # type: ignore[arg-type]
        return query.new_zeros(1, query.shape[2], query.shape[1], value.shape[-1]), None

    AttentionInterface.register(_PROBE, probe)
    AttentionInterface.register(attention.NAME, attention.paged_attention)
    model.set_attn_implementation(_PROBE)
    model(
        input_ids=torch.zeros(1, 2, dtype=torch.long, device=device),
        position_ids=torch.arange(2, device=device)[None],
        use_cache=False,
        logits_to_keep=torch.tensor([0], device=device),
    )
    layers = int(model.config.get_text_config().num_hidden_layers)
    if sorted(shapes) != list(range(layers)):
        return None
    return [shapes[layer] for layer in range(layers)]


def _deviation(runner: PackedRunner, first: list[int], second: list[int], expected: Tensor) -> float:
    """Two sequences in two steps, so that a chunk that continues and a decode row share a pass; against plain ones."""
    sequences = [
        Sequence(-1, first, len(first), SamplingSpec(), 0, 0.0, blocks=[0, 1]),
        Sequence(-2, second, len(second), SamplingSpec(), 0, 0.0, blocks=[2]),
    ]
    try:
        runner.run([Chunk(sequences[1], 0, len(second) - 1), Chunk(sequences[0], 0, 24)])
        got = runner.run([Chunk(sequences[0], 24, len(first) - 24), Chunk(sequences[1], len(second) - 1, 1)])
    except Exception as error:
        log.info("llm.runner", extra={"why": f"the packed pass failed: {error}"})
        return float("inf")
    if got is None or not torch.isfinite(got).all():
        return float("inf")
    difference = (got.float() - expected).square().mean(-1).sqrt() / expected.std(-1)
    return float(difference.max())
