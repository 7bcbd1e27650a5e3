"""Decoding on a GPU: one attention call for all rows of a step, and the whole step replayed as a CUDA graph.

The loop over sequences in attention.py suits a CPU, where a call costs little; on a GPU its launches would cost more
than the work. Here every row's blocks are gathered by a table of fixed shape and attended to in one masked call, so
that a step of pure decoding has no shape that changes, and can be captured once per size and replayed.

Tables and attention are the same on any device and tested on the CPU against the loop. Capture and replay have not
been measured on a GPU by this project: nothing in its tables was made with them. Rows are padded to sizes in common,
so replies are not claimed to be the same bit for bit whoever decodes beside them; on the CPU they are.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody knows
from torch import Tensor

from app.engine.attention import KvPool, Reach
from app.engine.sequence import Chunk
from app.telemetry.log import log_event

log = logging.getLogger(__name__)

MOST_GRAPHS = 32
"""Each keeps its own working memory; the one unused for longest goes first."""
_LARGEST_DEVIATION = 0.08
"""As for the other runners in bf16."""
_BLOCK_STEP = 8
"""Tables are widened by this many blocks at a time, so that growing replies seldom need another graph."""


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence's next token to run, at ``position``."""

    token: int
    position: int
    blocks: SequenceOf[int]


@dataclass(frozen=True, slots=True)
class Tables:
    """What a step reads, as plain numbers: everything padded to ``shape`` by repeating the first row and block 0.

    A repeated row writes what the first writes, to the same place, and nobody looks at its logits.
    """

    tokens: list[int]
    positions: list[int]
    slots: list[int]
    blocks: list[list[int]]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and blocks of each."""
        return len(self.tokens), len(self.blocks[0])


def tables(rows: SequenceOf[Row], block_tokens: int) -> Tables:
    used = [row.position // block_tokens + 1 for row in rows]
    width = -(-max(used) // _BLOCK_STEP) * _BLOCK_STEP
    # Never a single row: a matrix product with one row takes another kernel and rounds differently.
    padded = [*rows, *([rows[0]] * (max(2, 1 << (len(rows) - 1).bit_length()) - len(rows)))]
    blocks = [list(row.blocks[: row.position // block_tokens + 1]) for row in padded]
    return Tables(
        tokens=[row.token for row in padded],
        positions=[row.position for row in padded],
        slots=[held[-1] * block_tokens + row.position % block_tokens for row, held in zip(padded, blocks, strict=True)],
        blocks=[held + [0] * (width - len(held)) for held in blocks],
    )


class DecodeStep:
    """Tensors that keep their place in memory from step to step; what ``step=`` is for paged_attention."""

    def __init__(self, pool: KvPool, content: Tables) -> None:
        device = pool.keys[0].device
        self._pool = pool
        self.tokens = torch.tensor([content.tokens], device=device)
        self.positions = torch.tensor([content.positions], device=device)
        self.wanted = torch.arange(len(content.tokens), device=device)
        self._slots = torch.tensor(content.slots, device=device)
        self._blocks = torch.tensor(content.blocks, device=device)

    def fill(self, content: Tables) -> None:
        """``content`` must have the shape of the first one."""
        self.tokens.copy_(torch.tensor([content.tokens]))
        self.positions.copy_(torch.tensor([content.positions]))
        self._slots.copy_(torch.tensor(content.slots))
        self._blocks.copy_(torch.tensor(content.blocks))

    def attention(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None, reach: Reach
    ) -> Tensor:
        """``query`` is ``[1, H, N, D]``, ``key`` and ``value`` ``[1, Hk, N, D]``; returns ``[1, N, H, Dv]``."""
        self._pool.write(layer, self._slots, key[0], value[0])
        keys, values = self._gather(self._pool.keys[layer]), self._gather(self._pool.values[layer])
        rows, kv_heads = keys.shape[:2]
        grouped = query[0].transpose(0, 1).reshape(rows, kv_heads, -1, query.shape[-1])
        mask = self._mask(keys.shape[2], reach)
        out = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask, scale=scaling)
        return out.reshape(1, rows, query.shape[1], -1)

    def _gather(self, pool: Tensor) -> Tensor:
        """``[N, Hk, L, D]`` from ``[Hk, blocks, block_tokens, D]``."""
        heads, _, size, width = pool.shape
        rows, count = self._blocks.shape
        return pool.index_select(1, self._blocks.flatten()).view(heads, rows, count * size, width).transpose(0, 1)

    def _mask(self, length: int, reach: Reach) -> Tensor:
        """``[N, 1, 1, L]``, true where the row looks. What lies behind is finite: blocks hold zeros or older keys."""
        columns = torch.arange(length, device=self.positions.device)[None]
        last = self.positions[0][:, None]
        seen = columns <= last
        if reach.window:
            seen = seen & (columns > last - reach.window)
        if reach.chunk:
            seen = seen & (columns >= last // reach.chunk * reach.chunk)
        return seen[:, None, None]


@dataclass(slots=True)
class _Graph:
    step: DecodeStep
    logits: Tensor
    graph: Any


class DecodeGraphs:
    """Runs steps of pure decoding, by replay where there is CUDA and directly elsewhere.

    ``run`` returns None, for good, once a model has shown that it cannot be captured (experts that are chosen on the
    host, say), or that its logits are not those of ``plain``: its steps then go the ordinary way.
    """

    def __init__(self, model: Any, pool: KvPool, plain: Callable[[SequenceOf[Chunk]], Tensor | None]) -> None:
        """``plain`` runs the same chunks the ordinary way; asked once, at the first step."""
        self._model = model
        self._pool = pool
        self._plain = plain
        self._checked = False
        self._captures = pool.keys[0].is_cuda
        self._graphs: OrderedDict[tuple[int, int], _Graph] = OrderedDict()
        self._usable = True

    @torch.inference_mode()
    def run(self, chunks: SequenceOf[Chunk]) -> Tensor | None:
        """Logits ``[n, vocabulary]`` of n chunks of one token that all sample; None if the step is of another kind."""
        if not self._usable or not all(chunk.count == 1 and chunk.samples for chunk in chunks):
            return None
        rows = [Row(chunk.sequence.ids[chunk.start], chunk.start, chunk.sequence.blocks) for chunk in chunks]
        try:
            logits = self._logits(tables(rows, self._pool.block_tokens))[: len(rows)]
            if not self._checked:
                self._check(logits, self._plain(chunks))
        except Exception as error:  # whatever a model or driver raises here, steps can still run the ordinary way
            log_event(log, "llm.no_cuda_graph", level=logging.WARNING, why=str(error))
            self._usable = False
            self._graphs.clear()
            return None
        return logits

    def _logits(self, content: Tables) -> Tensor:
        if not self._captures:
            return self._forward(DecodeStep(self._pool, content))
        held = self._graphs.get(content.shape) or self._capture(content)
        self._graphs.move_to_end(content.shape)
        held.step.fill(content)
        held.graph.replay()
        return held.logits.clone()

    def _check(self, logits: Tensor, expected: Tensor | None) -> None:
        if expected is None:
            raise ValueError("there is nothing to compare the first step with")
        difference = (logits.float() - expected.float()).square().mean(-1).sqrt() / expected.float().std(-1)
        if not float(difference.max()) <= _LARGEST_DEVIATION:
            raise ValueError(f"logits are off by {float(difference.max()):.3f} standard deviations")
        self._checked = True

    def _capture(self, content: Tables) -> _Graph:
        step = DecodeStep(self._pool, content)
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # first calls allocate and choose kernels, which must not be recorded
            for _ in range(2):
                self._forward(step)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = self._forward(step)
        self._graphs[content.shape] = held = _Graph(step, logits, graph)
        while len(self._graphs) > MOST_GRAPHS:
            self._graphs.popitem(last=False)
        return held

    def _forward(self, step: DecodeStep) -> Tensor:
        output = self._model(
            input_ids=step.tokens,
            position_ids=step.positions,
            use_cache=False,
            logits_to_keep=step.wanted,
            step=step,
        )
        logits: Tensor = output.logits[0]
        return logits
