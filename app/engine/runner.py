"""Runs a step on the model: the packed runner, for models that allow it (single.py has the one for the rest)."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import Any, Protocol

import torch
from torch import Tensor

from app.engine.attention import KvPool, StepLayout
from app.engine.attention_cuda import DecodeGraphs
from app.engine.sampler import Sampler
from app.engine.sequence import Chunk, Draw, RunnerTraits, rows_of


class Runner(Protocol):
    """Turns chunks into the logits of those that sample, ``[n, vocabulary]``, in their order."""

    name: str
    traits: RunnerTraits

    def run(self, chunks: SequenceOf[Chunk]) -> Tensor | None:
        """None if no chunk samples."""
        ...

    def forget(self, key: int) -> None:
        """Drop what is kept outside the pool for a sequence. Unknown keys are fine."""
        ...


class PackedRunner:
    """All chunks of a step in one forward pass, keys and values in the paged pool."""

    name = "packed"
    traits = RunnerTraits(can_chunk=True, can_reuse=True)

    def __init__(self, model: Any, pool: KvPool) -> None:
        self._model = model
        self._pool = pool
        self._device = pool.keys[0].device
        self._graphs = DecodeGraphs(model, pool, self._run) if self._device.type == "cuda" else None

    @torch.inference_mode()
    def run(self, chunks: SequenceOf[Chunk]) -> Tensor | None:
        replayed = self._graphs.run(chunks) if self._graphs is not None else None
        return self._run(chunks) if replayed is None else replayed

    def _run(self, chunks: SequenceOf[Chunk]) -> Tensor | None:
        layout = StepLayout(
            self._pool,
            [(start, count, chunk.sequence.blocks) for chunk in chunks for start, count in chunk.cells()],
        )
        rows = rows_of(chunks)
        ids, positions, wanted = rows.ids, rows.positions, rows.wanted
        if len(ids) == 1:
            # A matrix product with a single row takes another kernel, which rounds differently: the row is doubled,
            # so that a reply alone equals the same reply in company. The copy is in no span: it leaves no trace.
            ids, positions = ids * 2, positions * 2
        kept = wanted * 2 if len(wanted) == 1 else wanted or [0]
        output = self._model(
            input_ids=torch.tensor([ids], device=self._device),
            position_ids=torch.tensor([positions], device=self._device),
            use_cache=False,
            logits_to_keep=torch.tensor(kept, device=self._device),
            step=layout,
        )
        logits: Tensor = output.logits[0, : len(wanted)]
        return logits if wanted else None

    def forget(self, key: int) -> None:
        pass


class Backend:
    """Runner and sampler together: all that the engine needs of the model."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._sampler = Sampler()
        self.traits = runner.traits

    def step(self, chunks: SequenceOf[Chunk]) -> list[Draw]:
        """Run the chunks; the draw of each chunk that samples, in order."""
        logits = self._runner.run(chunks)
        if logits is None:
            return []
        return self._sampler.draw(logits, [chunk.sequence for chunk in chunks if chunk.samples])

    def logits(self, chunks: SequenceOf[Chunk]) -> Tensor | None:
        """What a step would draw from, ``[n, vocabulary]``: for measuring what a quantization costs."""
        return self._runner.run(chunks)

    def forget(self, key: int) -> None:
        self._runner.forget(key)
        self._sampler.forget(key)
