"""Every architecture that may run packed, tiny and random: ragged steps give the logits of plain forwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from app.engine import attention, choose
from app.engine.attention import KvPool, Reach
from app.engine.loader import load
from app.engine.messages import SamplingSpec
from app.engine.options import LoadOptions
from app.engine.runner import PackedRunner
from app.engine.sequence import Chunk, Sequence
from tests.kit.architectures import ALONE, PACKED, tiny_model
from tests.kit.tiny_models import save_tiny

BLOCK_TOKENS = 32
TOLERANCE = 1e-4
"""Of the logits' own spread; what a wrong mask or position changes is a thousand times larger."""

Plan = list[list[tuple[int, int, int]]]
MIXED: Plan = [
    [(0, 0, 32), (1, 0, 11)],
    [(1, 11, 1), (0, 32, 32), (2, 0, 32)],
    [(0, 64, 13), (1, 12, 1), (2, 32, 13)],
    [(2, 45, 1), (0, 77, 1), (1, 13, 1)],
    [(2, 46, 1)],
]
"""Steps of (sequence, start, count): chunks that go on share their step with decode rows, in any order."""
BLOCKS = ([5, 1, 3], [2], [6, 7])
"""Scattered, single and neighbouring."""


pytestmark = pytest.mark.usefixtures("one_thread")


@torch.inference_mode()
@pytest.mark.parametrize("model_type", PACKED)
def test_ragged_steps_give_the_logits_of_plain_forwards(model_type: str) -> None:
    model = tiny_model(model_type, **PACKED[model_type])
    generator = torch.Generator().manual_seed(1)
    texts = [torch.randint(1, 256, (length,), generator=generator).tolist() for length in (78, 14, 47)]
    expected = [model(input_ids=torch.tensor([ids]), use_cache=False).logits[0] for ids in texts]
    runner = _packed(model)
    for step in MIXED:
        parts = [(_sequence(which, texts[which], start + count), start, count) for which, start, count in step]
        got = runner.run([Chunk(*part) for part in parts])
        assert got is not None
        for row, (which, start, count) in zip(got, step, strict=True):
            wanted = expected[which][start + count - 1]
            assert _deviation(row, wanted) < TOLERANCE, f"sequence {which} at {start + count - 1}"


@torch.inference_mode()
@pytest.mark.parametrize("model_type", ["llama", "gemma2", "gemma3_text", "gpt_oss", "llama4_text"])
def test_a_decode_row_is_the_same_bit_for_bit_whoever_sits_beside_it(model_type: str) -> None:
    model = tiny_model(model_type, **{**PACKED[model_type], "num_local_experts": 1, "num_experts_per_tok": 1})
    runner = _packed(model)
    texts = [[(7 * i + which) % 256 for i in range(64)] for which in range(3)]
    blocks = ([0, 1], [4, 2], [6, 7])
    for ids, held in zip(texts, blocks, strict=True):
        runner.run([Chunk(_sequence(0, ids[:40], 40, held), 0, 40)])
    rows = [_sequence(which, texts[which], 41 + 5 * which, blocks[which]) for which in range(3)]
    for row in rows[1:]:
        runner.run([Chunk(row, 40, len(row.ids) - 40)])
    chunks = [Chunk(row, len(row.ids) - 1, 1) for row in rows]
    alone = runner.run(chunks[:1])
    together = runner.run([chunks[2], chunks[0], chunks[1]])
    assert alone is not None
    assert together is not None
    assert torch.equal(alone[0], together[1])


@pytest.mark.parametrize("model_type", ALONE)
def test_a_model_that_packing_would_falsify_is_never_run_packed(tmp_path: Path, model_type: str) -> None:
    folder = save_tiny(tmp_path, model_type, **ALONE[model_type])
    loaded = load(LoadOptions(folder, quantization="none", kv_cache_mb=1))
    assert loaded.runner == "single"
    assert not loaded.backend.traits.can_reuse


@pytest.mark.parametrize(
    ("reach", "length", "expected"),
    [
        (Reach(), 5, ["1....", "11...", "111..", "1111.", "11111"]),
        (Reach(window=2), 5, ["1....", "11...", ".11..", "..11.", "...11"]),
        (Reach(chunk=3), 5, ["1....", "11...", "111..", "...1.", "...11"]),
    ],
)
def test_a_reach_says_what_each_row_sees(reach: Reach, length: int, expected: list[str]) -> None:
    for position, row in enumerate(expected):
        assert reach.first(position) == row.index("1")
        assert reach.covers(position + 1) == (row[0] == "1")
    span = attention.Span(0, length, 0, [0])
    mask = attention._mask(span, reach, torch.device("cpu"))
    assert ["".join("1" if seen else "." for seen in row) for row in mask.tolist()] == expected


def _packed(model: Any) -> PackedRunner:
    shapes = choose._kv_shapes(model, "cpu")
    assert shapes is not None
    model.set_attn_implementation(attention.NAME)
    return PackedRunner(model, KvPool(shapes, 8, BLOCK_TOKENS, torch.float32, "cpu"))


def _sequence(which: int, ids: list[int], length: int, blocks: list[int] | None = None) -> Sequence:
    held = BLOCKS[which] if blocks is None else blocks
    return Sequence(which, ids[:length], length, SamplingSpec(), 0, 0.0, blocks=list(held))


def _deviation(got: Tensor, wanted: Tensor) -> float:
    return float((got - wanted).abs().max() / wanted.std())
