"""Attention over paged keys and values, for many sequences packed into one row.

The model runs on ``[1, T]`` tokens of different sequences; everything but attention treats rows
one by one. Here each layer's new keys and values go into the pool, and each sequence attends to its own blocks.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor

from app.engine.blocks import is_consecutive

NAME = "parley_paged"


class KvPool:
    """Keys and values of all layers, each ``[Hk, blocks, block_tokens, D]``: one sequence's run of blocks is a view."""

    def __init__(
        self, shapes: SequenceOf[tuple[int, int, int]], blocks: int, block_tokens: int, dtype: torch.dtype, device: str
    ) -> None:
        """``shapes`` gives (heads, key width, value width) of each layer. Memory is touched only as it is used."""
        self.blocks = blocks
        self.block_tokens = block_tokens
        # On a GPU rows are padded with blocks that nobody has written yet, and not-a-number would get past a mask.
        make = torch.zeros if device.startswith("cuda") else torch.empty
        sizes = [((heads, blocks, block_tokens, k), (heads, blocks, block_tokens, v)) for heads, k, v in shapes]
        self.keys = [make(size, dtype=dtype, device=device) for size, _ in sizes]
        self.values = [make(size, dtype=dtype, device=device) for _, size in sizes]

    def write(self, layer: int, slots: Tensor, key: Tensor, value: Tensor) -> None:
        """``key`` and ``value`` are ``[Hk, T, D]``; row t goes to token slot ``slots[t]``, further rows nowhere."""
        count = slots.shape[0]
        for pool, rows in ((self.keys[layer], key), (self.values[layer], value)):
            pool.view(pool.shape[0], -1, pool.shape[-1]).index_copy_(1, slots, rows[:, :count])


@dataclass(frozen=True, slots=True)
class Reach:
    """How far back a layer looks: over a sliding ``window``, to the start of the current ``chunk``, or 0 for all."""

    window: int = 0
    chunk: int = 0

    def first(self, position: int) -> int:
        """The earliest position that the row at ``position`` sees."""
        since_chunk = position // self.chunk * self.chunk if self.chunk else 0
        return max(since_chunk, position - self.window + 1) if self.window else since_chunk

    def covers(self, length: int) -> bool:
        """Whether every row of a sequence of ``length`` sees all before it."""
        return self.first(length - 1) == 0


@dataclass(slots=True)
class Span:
    """One sequence's part of a step: ``rows`` rows from ``row`` on, at positions from ``start`` on."""

    row: int
    rows: int
    start: int
    blocks: list[int]
    index: Tensor | None = None
    """The blocks as a tensor if they are not consecutive."""
    masks: dict[Reach, Tensor] = field(default_factory=dict)

    @property
    def length(self) -> int:
        return self.start + self.rows


class StepLayout:
    """Where the rows of a step lie, in the packed row and in the pool; made once, used by every layer."""

    def __init__(self, pool: KvPool, parts: SequenceOf[tuple[int, int, SequenceOf[int]]]) -> None:
        """``parts`` gives (start, count, blocks) of each sequence, in packed order."""
        self.pool = pool
        self.spans: list[Span] = []
        slots: list[int] = []
        size = pool.block_tokens
        device = pool.keys[0].device
        row = 0
        for start, count, blocks in parts:
            used = list(blocks[: -(-(start + count) // size)])
            index = None if is_consecutive(used) else torch.tensor(used, device=device)
            self.spans.append(Span(row, count, start, used, index))
            slots += [blocks[position // size] * size + position % size for position in range(start, start + count)]
            row += count
        self.slots = torch.tensor(slots, device=device)

    def context(self, pool: Tensor, span: Span, first: int) -> Tensor:
        """Keys or values ``[Hk, L, D]`` of a span's sequence from position ``first``; a view where its blocks allow."""
        heads, _, size, width = pool.shape
        if span.index is None:
            flat = pool.view(heads, -1, width)
            return flat.narrow(1, span.blocks[0] * size + first, span.length - first)
        gathered = pool.index_select(1, span.index).view(heads, -1, width)
        return gathered.narrow(1, first, span.length - first)


class BatchedStep(Protocol):
    """A step that attends for all its rows in one call (see attention_cuda.py)."""

    def attention(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None, reach: Reach
    ) -> Tensor: ...


def paged_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    step: StepLayout | BatchedStep | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """The attention function that transformers' models call.

    ``query`` is ``[1, H, T, D]``, ``key`` and ``value`` ``[1, Hk, T, D]``; returns ``[1, T, H, Dv]``.
    """
    if step is None:
        raise RuntimeError("paged attention needs the layout of its step")
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    reach = Reach(sliding_window or 0, _chunk(module, layer))
    if not isinstance(step, StepLayout):
        if softcap is not None or s_aux is not None:
            raise RuntimeError("scores that are bent or have a sink are not attended to in one call")
        return step.attention(layer, query, key, value, scaling, reach), None
    step.pool.write(layer, step.slots, key[0], value[0])
    keys, values = step.pool.keys[layer], step.pool.values[layer]
    heads, width = query.shape[1], values.shape[-1]
    out = query.new_zeros(query.shape[2], heads, width)
    for span in step.spans:
        first = reach.first(span.start)
        k = step.context(keys, span, first)
        v = step.context(values, span, first)
        q = query[0, :, span.row : span.row + span.rows]
        if softcap is not None or s_aux is not None:
            mask = _mask(span, reach, query.device)
            attended = _explicit(q, k, v, mask, scaling, softcap, s_aux)
        else:
            attended = _attend(q, k, v, span, scaling, reach)
        out[span.row : span.row + span.rows] = attended.transpose(0, 1)
    return out.unsqueeze(0), None


def _chunk(module: torch.nn.Module, layer: int) -> int:
    """Llama 4 cuts attention into chunks by its mask alone, so the size must be had from the configuration."""
    config = module.config
    kinds = getattr(config, "layer_types", None)
    chunked = kinds is not None and kinds[layer] == "chunked_attention"
    return int(config.attention_chunk_size) if chunked else 0  # type: ignore[union-attr, arg-type]


def _attend(q: Tensor, k: Tensor, v: Tensor, span: Span, scaling: float | None, reach: Reach) -> Tensor:
    """``[H, n, D]`` x ``[Hk, L, D]`` to ``[H, n, Dv]``."""
    heads, rows, width = q.shape
    groups = heads // k.shape[0]
    if rows == 1:
        # The heads of a group become rows: no copy of keys, and one product for the group.
        grouped = q.reshape(k.shape[0], groups, width)
        return F.scaled_dot_product_attention(grouped[None], k[None], v[None], scale=scaling)[0].reshape(heads, 1, -1)
    whole = span.start == 0 and reach.covers(span.length)
    mask = None if whole else _mask(span, reach, q.device)
    return F.scaled_dot_product_attention(
        q[None], k[None], v[None], attn_mask=mask, is_causal=whole, scale=scaling, enable_gqa=groups > 1
    )[0]


def _explicit(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scaling: float | None, softcap: float | None, s_aux: Tensor | None
) -> Tensor:
    """For the few models that bend the scores (Gemma 2's soft cap) or add a sink to them (gpt-oss)."""
    heads, rows, width = q.shape
    grouped = q.reshape(k.shape[0], heads // k.shape[0], rows, width).float()
    scores = grouped @ k.float().unsqueeze(1).transpose(-1, -2) * (scaling if scaling is not None else width**-0.5)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores.masked_fill(~mask, float("-inf"))
    if s_aux is not None:
        sinks = s_aux.float().view(k.shape[0], -1, 1, 1).expand(*scores.shape[:-1], 1)
        weights = torch.cat([scores, sinks], dim=-1).softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1)
    return (weights @ v.float().unsqueeze(1)).reshape(heads, rows, -1).to(q.dtype)


def _mask(span: Span, reach: Reach, device: torch.device) -> Tensor:
    """``[n, L]``, true where a row may look; kept for the other layers with the same reach."""
    mask = span.masks.get(reach)
    if mask is None:
        rows = torch.arange(span.start, span.length, device=device)[:, None]
        columns = torch.arange(reach.first(span.start), span.length, device=device)[None, :]
        mask = columns <= rows
        if reach.window:
            mask &= columns > rows - reach.window
        if reach.chunk:
            mask &= columns >= rows // reach.chunk * reach.chunk
        span.masks[reach] = mask
    return mask
