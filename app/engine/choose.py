"""Chooses the runner for a loaded model: the fastest whose logits agree with the model's own.

native: lean models on the CPU, own kernels. lean: the same through torch. packed: any model that takes another
attention function. single: one sequence at a time, for all others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from transformers import AttentionInterface

from app.engine import attention
from app.engine.attention import KvPool
from app.engine.lean import LeanModel, NotLean, read
from app.engine.lean_runner import LeanRunner
from app.engine.messages import SamplingSpec
from app.engine.native.bindings import Kernels
from app.engine.native.build import library
from app.engine.native.runner import NativeRunner, block_bytes
from app.engine.options import LoadOptions
from app.engine.runner import PackedRunner, Runner
from app.engine.sequence import Chunk, Sequence
from app.engine.single import SingleRunner, examine
from app.errors import ModelError
from app.telemetry.log import log_event

log = logging.getLogger(__name__)

BLOCK_TOKENS = 32
_CHECK_BLOCKS = 3
"""What the self-check needs; a smaller pool would be of no use either."""
_MOST_CONVERSATIONS = 64
"""Of full length, where the model's own caches are so small that memory sets no limit."""
_PROBE = "parley_probe"
_LARGEST_DEVIATION = {"none": 1e-3, "bf16": 0.08, "int8": 1.0}
"""Root mean square difference between packed and plain logits, in standard deviations of the logits."""

Shape: TypeAlias = tuple[int, int, int]


class _Unfit(Exception):
    """This runner is not for this model; the message says why."""


@dataclass(frozen=True, slots=True)
class _Probe:
    """Two prompts, and the model's own logits after each of them."""

    first: list[int]
    second: list[int]
    expected: Tensor


class _Chooser:
    def __init__(self, model: Any, options: LoadOptions, device: str, context: int) -> None:
        self._model = model
        self._options = options
        self._device = device
        self._context = context
        self._own_attention = model.config._attn_implementation
        self._largest_deviation = _LARGEST_DEVIATION[options.quantization]
        self._pool_bytes = options.kv_cache_mb * 1024 * 1024

    def choose(self) -> tuple[Runner, int]:
        makers: dict[str, Callable[[], tuple[Runner, int]]] = {
            "native": self._native,
            "lean": self._lean,
            "packed": self._packed,
            "single": self._single,
        }
        wanted = self._options.runner
        refusals: list[str] = []
        for name, make in makers.items():
            if wanted not in ("auto", name):
                continue
            try:
                if self._options.quantization == "int8" and name != "native":
                    raise _Unfit("int8 weights need the native kernels")
                runner, blocks = make()
            except _Unfit as unfit:
                refusals.append(f"{name}: {unfit}")
                log_event(log, "llm.runner_unfit", runner=name, why=str(unfit))
            else:
                log_event(log, "llm.runner", runner=runner.name, passed_over="; ".join(refusals) or None)
                return runner, blocks
        raise ModelError(
            f"no runner for this model with llm.runner {wanted} and llm.quantization {self._options.quantization} "
            f"({'; '.join(refusals)}): set the first to auto, or the second to bf16"
        )

    def _native(self) -> tuple[Runner, int]:
        if self._device != "cpu" or self._options.quantization == "none":
            raise _Unfit("the native kernels compute in bf16 or int8, on the CPU")
        lean = self._read_lean()
        try:
            kernels = Kernels(library())
            blocks = self._blocks(block_bytes(lean))
            runner = NativeRunner(kernels, lean, blocks, self._options.threads, int8=self._int8)
        except (ModelError, OSError, NotLean) as error:
            raise _Unfit(str(error)) from error
        self._check(runner)
        return runner, blocks

    def _lean(self) -> tuple[Runner, int]:
        if self._device != "cpu" and self._options.runner == "auto":
            raise _Unfit("on a GPU the packed runner replays whole steps")
        lean = self._read_lean()
        shapes = [(lean.kv_heads, lean.head_dim, lean.head_dim)] * len(lean.layers)
        pool, blocks = self._pool(shapes)
        runner = LeanRunner(lean, pool)
        self._check(runner)
        return runner, blocks

    def _packed(self) -> tuple[Runner, int]:
        try:
            shapes = _kv_shapes(self._model, self._device)
        except Exception as error:  # whatever a model raises here, it can still run its own way
            self._model.set_attn_implementation(self._own_attention)
            raise _Unfit(f"the model does not take another attention: {error}") from error
        if shapes is None:
            self._model.set_attn_implementation(self._own_attention)
            raise _Unfit("a layer has no attention")
        pool, blocks = self._pool(shapes)
        runner = PackedRunner(self._model, pool)
        try:
            self._check(runner, around=attention.NAME)
        except _Unfit:
            self._model.set_attn_implementation(self._own_attention)
            raise
        return runner, blocks

    def _single(self) -> tuple[Runner, int]:
        """With as many blocks, which only count tokens here, as caches have room in ``kv_cache_mb``."""
        keeping, cost = examine(self._model, self._device, self._largest_deviation)
        log_event(log, "llm.own_cache", keeps=keeping.value, bytes_per_token=cost.per_token)
        conversation = -(-self._context // BLOCK_TOKENS)
        most = _MOST_CONVERSATIONS * conversation
        room = self._pool_bytes // (cost.per_token * BLOCK_TOKENS) if cost.per_token else most
        blocks = max(conversation, min(room, most))
        return SingleRunner(self._model, self._device, keeping, cost, self._pool_bytes), blocks

    @property
    def _int8(self) -> bool:
        return self._options.quantization == "int8"

    def _read_lean(self) -> LeanModel:
        try:
            return read(self._model, self._context)
        except (NotLean, AttributeError) as error:
            raise _Unfit(str(error)) from error

    def _pool(self, shapes: list[Shape]) -> tuple[KvPool, int]:
        dtype = torch.float32 if self._options.quantization == "none" else torch.bfloat16
        bytes_each = sum(heads * (k + v) for heads, k, v in shapes) * BLOCK_TOKENS * dtype.itemsize
        blocks = self._blocks(bytes_each)
        return KvPool(shapes, blocks, BLOCK_TOKENS, dtype, self._device), blocks

    def _blocks(self, bytes_each: int) -> int:
        return max(_CHECK_BLOCKS, self._pool_bytes // bytes_each)

    def _check(self, runner: Runner, around: str | None = None) -> None:
        """Against the model's own forward passes on the loaded weights, which need its own attention."""
        self._model.set_attn_implementation(self._own_attention)
        try:
            probe = _probe(self._model, self._device)
        except Exception as error:
            raise _Unfit(f"the model's plain forward pass failed: {error}") from error
        if around is not None:
            self._model.set_attn_implementation(around)
        deviation = _deviation(runner, probe)
        if not deviation <= self._largest_deviation:
            raise _Unfit(f"its logits are off by {deviation:.3f} standard deviations")


def choose(model: Any, options: LoadOptions, device: str, context: int) -> tuple[Runner, int]:
    """The runner, and the number of its KV blocks. Raises ModelError if ``options`` leave none that is right."""
    return _Chooser(model, options, device, context).choose()


@torch.inference_mode()
def _probe(model: Any, device: str) -> _Probe:
    vocabulary = int(model.get_input_embeddings().num_embeddings)
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randint(vocabulary, (length,), generator=generator).tolist() for length in (40, 11))
    logits = [
        model(input_ids=torch.tensor([ids], device=device), use_cache=False).logits[0, -1:].float()
        for ids in (first, second)
    ]
    return _Probe(first, second, torch.cat(logits))


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


def _deviation(runner: Runner, probe: _Probe) -> float:
    """Two sequences in two steps, so that a chunk that continues and a decode row share a pass; against plain ones."""
    first, second = probe.first, probe.second
    sequences = [
        Sequence(-1, first, len(first), SamplingSpec(), 0, 0.0, blocks=[0, 1]),
        Sequence(-2, second, len(second), SamplingSpec(), 0, 0.0, blocks=[2]),
    ]
    try:
        runner.run([Chunk(sequences[1], 0, len(second) - 1), Chunk(sequences[0], 0, 24)])
        got = runner.run([Chunk(sequences[0], 24, len(first) - 24), Chunk(sequences[1], len(second) - 1, 1)])
    except Exception as error:
        log_event(log, "llm.runner_unfit", runner=runner.name, why=f"its pass failed: {error}")
        return float("inf")
    if got is None or not torch.isfinite(got).all():
        return float("inf")
    difference = (got.float() - probe.expected.to(got.device)).square().mean(-1).sqrt() / probe.expected.std(-1)
    return float(difference.max())
