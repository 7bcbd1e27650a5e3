"""Runs a lean model through torch: for machines without a compiler, for float32, and for GPUs."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from types import SimpleNamespace

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor

from app.engine.attention import KvPool, StepLayout, paged_attention
from app.engine.lean import LeanLayer, LeanModel
from app.engine.sequence import Chunk, RunnerTraits, rows_of

Product = Callable[[Tensor], Tensor]
"""``[rows, in]`` to ``[rows, out]``."""

_PREPACK_ROWS = 16
"""oneDNN lays the weights out for about this many rows; any other number still works."""


@dataclass(frozen=True, slots=True)
class _Layer:
    plan: LeanLayer
    qkv: Product
    out: Product
    gate_up: Product
    down: Product
    place: SimpleNamespace
    """What the attention function asks of a module."""


class LeanRunner:
    """Fused projections, prepacked where oneDNN has bf16 kernels; attention as in the general runner."""

    name = "lean"
    traits = RunnerTraits(can_chunk=True, can_reuse=True)

    def __init__(self, lean: LeanModel, pool: KvPool) -> None:
        self._lean = lean
        self._pool = pool
        self._device = pool.keys[0].device
        self._layers = [
            _Layer(
                plan=layer,
                qkv=_product(layer.qkv, layer.qkv_bias),
                out=_product(layer.out, layer.out_bias),
                gate_up=_product(layer.gate_up),
                down=_product(layer.down),
                place=SimpleNamespace(layer_idx=index, config=None),
            )
            for index, layer in enumerate(lean.layers)
        ]
        self._head = _product(lean.head)
        self._cos, self._sin = lean.cos.to(self._device), lean.sin.to(self._device)

    @torch.inference_mode()
    def run(self, chunks: SequenceOf[Chunk]) -> Tensor | None:
        """``[n, vocabulary]``; None if no chunk samples."""
        layout = StepLayout(
            self._pool,
            [(start, count, chunk.sequence.blocks) for chunk in chunks for start, count in chunk.cells()],
        )
        rows = rows_of(chunks)
        ids, positions, wanted = rows.ids, rows.positions, rows.wanted
        if len(ids) == 1:
            ids, positions = ids * 2, positions * 2  # a single row would be rounded otherwise: see PackedRunner
        hidden = self._forward(torch.tensor(ids, device=self._device), positions, layout)
        if not wanted:
            return None
        last = hidden[torch.tensor(wanted * 2 if len(wanted) == 1 else wanted, device=self._device)]
        return self._head(self._norm(last, self._lean.norm_out))[: len(wanted)]

    def forget(self, key: int) -> None:
        """Nothing is kept outside the blocks."""

    def _forward(self, ids: Tensor, positions: list[int], layout: StepLayout) -> Tensor:
        x = F.embedding(ids, self._lean.embedding)
        where = torch.tensor(positions, device=self._device)
        cos, sin = (table[where][:, None].to(x.dtype) for table in (self._cos, self._sin))
        for layer in self._layers:
            x = x + layer.out(self._attention(layer, self._norm(x, layer.plan.norm_in), cos, sin, layout))
            gate, up = layer.gate_up(self._norm(x, layer.plan.norm_mid)).chunk(2, dim=-1)
            x = x + layer.down(F.silu(gate) * up)
        return x

    def _attention(self, layer: _Layer, x: Tensor, cos: Tensor, sin: Tensor, layout: StepLayout) -> Tensor:
        lean, plan = self._lean, layer.plan
        heads = layer.qkv(x).view(x.shape[0], -1, lean.head_dim)
        q, k, v = torch.split(heads, [lean.heads, lean.kv_heads, lean.kv_heads], dim=1)
        if plan.norm_q is not None and plan.norm_k is not None:
            q, k = self._norm(q, plan.norm_q), self._norm(k, plan.norm_k)
        if plan.rotates:
            q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        out, _ = paged_attention(
            layer.place,  # type: ignore[arg-type]
            q.transpose(0, 1)[None],
            k.transpose(0, 1)[None],
            v.transpose(0, 1)[None],
            scaling=lean.scale,
            sliding_window=plan.window or None,
            step=layout,
        )
        return out.reshape(x.shape[0], -1)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """Zhang and Sennrich, Root Mean Square Layer Normalization; in float32, as the models were trained."""
        wide = x.float()
        return weight * (wide * (wide.square().mean(-1, keepdim=True) + self._lean.eps).rsqrt()).to(x.dtype)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def _product(weight: Tensor, bias: Tensor | None = None) -> Product:
    mkldnn = torch.ops.mkldnn
    if weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and mkldnn._is_mkldnn_bf16_supported():
        packed = mkldnn._reorder_linear_weight(weight.detach(), _PREPACK_ROWS)
        return lambda x: mkldnn._linear_pointwise(x.contiguous(), packed, bias, "none", [], "")
    return lambda x: F.linear(x, weight, bias)
