"""Runs a lean model through the native kernels: packs its weights, and turns chunks into one call per step."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence as SequenceOf
from ctypes import c_int32

import torch
from torch import Tensor

from app.engine.lean import LeanModel, NotLean
from app.engine.native import bindings
from app.engine.native.bindings import BLOCK, UNIT, Kernels
from app.engine.sequence import Chunk, RunnerTraits
from app.errors import StageError


def block_bytes(lean: LeanModel) -> int:
    """Of a KV block of all layers."""
    width = lean.head_dim + -(-lean.head_dim // UNIT) * UNIT
    return len(lean.layers) * lean.kv_heads * width * BLOCK * torch.bfloat16.itemsize


class NativeRunner:
    """Weights in bf16 or int8, keys and values in bf16, everything between products in f32.

    int8 weights have a scale for each output and are widened to bf16 where they are used, so
    inputs keep their precision: half the memory traffic, which is what few rows wait for.

    A row's logits are the same bits whatever else is in its step, and however its prompt was cut.
    """

    name = "native"
    traits = RunnerTraits(can_chunk=True, can_reuse=True)

    def __init__(self, kernels: Kernels, lean: LeanModel, kv_blocks: int, threads: int, *, int8: bool = False) -> None:
        """``lean`` may be let go afterwards. Raises NotLean for sizes that the kernels do not take."""
        _check_sizes(lean)
        self._kernels = kernels
        self._int8 = int8
        self._tensors: list[Tensor] = []
        """Everything that the structs below point at."""
        layers = (bindings.Layer * len(lean.layers))()
        key_elements = lean.kv_heads * kv_blocks * lean.head_dim * BLOCK
        value_elements = lean.kv_heads * kv_blocks * -(-lean.head_dim // UNIT) * UNIT * BLOCK
        for struct, layer in zip(layers, lean.layers, strict=True):
            struct.qkv = self._packed(layer.qkv, layer.qkv_bias)
            struct.out = self._packed(layer.out, layer.out_bias)
            struct.gate_up = self._packed(layer.gate_up, interleaved=True)
            struct.down = self._packed(layer.down)
            struct.norm_in, struct.norm_mid = self._f32(layer.norm_in), self._f32(layer.norm_mid)
            struct.norm_q, struct.norm_k = self._f32(layer.norm_q), self._f32(layer.norm_k)
            struct.keys, struct.values = self._kept(_room(key_elements)), self._kept(_room(value_elements))
            struct.window, struct.rotate = layer.window, layer.rotates
        self._head = self._packed(lean.head)
        tied = lean.embedding.data_ptr() == lean.head.data_ptr()
        self._embedding = self._head if tied else self._packed(lean.embedding)
        self._model = bindings.Model(
            hidden=lean.hidden,
            heads=lean.heads,
            kv_heads=lean.kv_heads,
            head_dim=lean.head_dim,
            inner=lean.inner,
            layers=len(lean.layers),
            vocabulary=lean.vocabulary,
            blocks=kv_blocks,
            eps=lean.eps,
            scale=lean.scale,
            layer=layers,
            head=self._head,
            embedding=ctypes.pointer(self._embedding),
            norm_out=self._f32(lean.norm_out),
            cos=self._f32(lean.cos),
            sin=self._f32(lean.sin),
        )
        self._vocabulary = lean.vocabulary
        self._logits = torch.empty(0, self._head.units * UNIT)
        self._spent = (ctypes.c_double * len(bindings.STAGES))()
        self._crew = kernels.crew(threads)
        self._dismiss = weakref.finalize(self, kernels.dismiss, self._crew)

    def run(self, chunks: SequenceOf[Chunk]) -> Tensor | None:
        """``[n, vocabulary]`` float32, overwritten by the next call; None if no chunk samples."""
        ids: list[int] = []
        positions: list[int] = []
        span_of: list[int] = []
        wanted: list[int] = []
        spans = (bindings.Span * len(chunks))()
        tables = []
        for index, chunk in enumerate(chunks):
            blocks = chunk.sequence.blocks[: -(-chunk.stop // BLOCK)]
            table = (c_int32 * len(blocks))(*blocks)
            tables.append(table)
            spans[index] = bindings.Span(len(ids), chunk.count, chunk.start, ctypes.addressof(table))
            ids += chunk.sequence.ids[chunk.start : chunk.stop]
            positions += range(chunk.start, chunk.stop)
            span_of += [index] * chunk.count
            if chunk.samples:
                wanted.append(len(ids) - 1)
        logits = self._logits_for(len(wanted))
        rows = c_int32 * len(ids)
        step = bindings.Step(
            rows=len(ids),
            spans=len(chunks),
            wanted=len(wanted),
            ids=rows(*ids),
            positions=rows(*positions),
            span_of=rows(*span_of),
            span=spans,
            wanted_rows=(c_int32 * len(wanted))(*wanted),
            logits=logits.data_ptr(),
            spent=self._spent,
        )
        if self._kernels.step(self._crew, self._model, step):
            raise StageError("no memory for a step of the language model: lower llm.max_running or free some")
        return logits[:, : self._vocabulary] if wanted else None

    def forget(self, key: int) -> None:
        """Nothing is kept outside the blocks."""

    def spent_s(self) -> dict[str, float]:
        """Seconds of each kind of stage since the start, waiting for other threads included."""
        return dict(zip(bindings.STAGES, self._spent, strict=True))

    def _logits_for(self, rows: int) -> Tensor:
        """The same memory in each step: fresh pages for a few megabytes would cost as much as a layer."""
        if len(self._logits) < rows:
            self._logits = torch.empty(rows, self._head.units * UNIT)
        return self._logits[:rows]

    def _packed(self, weight: Tensor, bias: Tensor | None = None, *, interleaved: bool = False) -> bindings.Linear:
        columns, inner = weight.shape
        units = -(-columns // UNIT)
        source = weight.detach().to("cpu", torch.bfloat16).contiguous()
        linear = bindings.Linear(bias=self._f32(bias, units * UNIT), units=units, inner=inner)
        if self._int8:
            linear.weight = self._weights(units * UNIT * inner, torch.int8)
            linear.scale = self._kept(torch.empty(units * UNIT))
            self._kernels.pack_int8(source.data_ptr(), columns, inner, interleaved, linear.weight, linear.scale)
        else:
            linear.weight = self._weights(units * UNIT * inner, torch.bfloat16)
            self._kernels.pack(source.data_ptr(), columns, inner, interleaved, linear.weight)
        return linear

    def _weights(self, elements: int, dtype: torch.dtype) -> int:
        tensor = _room(elements, dtype)
        self._kernels.large_pages(tensor.data_ptr(), tensor.nbytes)
        return self._kept(tensor)

    def _f32(self, tensor: Tensor | None, padded: int = 0) -> int | None:
        if tensor is None:
            return None
        plain = tensor.detach().to("cpu", torch.float32).contiguous().clone()
        if plain.numel() < padded:
            plain = torch.nn.functional.pad(plain, (0, padded - plain.numel()))
        return self._kept(plain)

    def _kept(self, tensor: Tensor) -> int:
        self._tensors.append(tensor)
        return tensor.data_ptr()


def _room(elements: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Memory that becomes resident only as it is used."""
    return torch.empty(elements, dtype=dtype)


def _check_sizes(lean: LeanModel) -> None:
    qkv = (lean.heads + 2 * lean.kv_heads) * lean.head_dim
    for name, size, multiple in (
        ("hidden size", lean.hidden, UNIT),
        ("width of queries, keys and values", qkv, UNIT),
        ("width of the MLP", lean.inner, UNIT),
        ("head dimension", lean.head_dim, 16),
    ):
        if size % multiple:
            raise NotLean(f"{name} {size} is no multiple of {multiple}")
