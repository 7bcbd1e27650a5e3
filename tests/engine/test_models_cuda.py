"""The GPU's way of decoding, as far as a CPU can tell: its tables, and its attention against the loop's."""

from __future__ import annotations

import pytest
import torch

from app.engine import attention, choose
from app.engine.attention import KvPool
from app.engine.attention_cuda import DecodeGraphs, Row, tables
from app.engine.messages import SamplingSpec
from app.engine.runner import PackedRunner
from app.engine.sequence import Chunk, Sequence
from tests.kit.architectures import PACKED, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

BLOCKS = ([5, 1, 3], [2], [6, 7])
LENGTHS = (70, 12, 40)


def test_tables_pad_rows_to_powers_of_two_and_blocks_in_steps() -> None:
    made = tables([Row(11, 0, [4]), Row(12, 33, [7, 2]), Row(13, 31, [9])], 32)
    assert made.shape == (4, 8)
    assert made.tokens == [11, 12, 13, 11]
    assert made.positions == [0, 33, 31, 0]
    assert made.slots == [4 * 32, 2 * 32 + 1, 9 * 32 + 31, 4 * 32]
    assert made.blocks[1] == [7, 2, 0, 0, 0, 0, 0, 0]
    assert tables([Row(1, 32 * 8, list(range(9)))], 32).shape == (2, 16)


@torch.inference_mode()
@pytest.mark.parametrize(
    "model_type", ["llama", "qwen2", "gemma3_text", "gemma4_text", "llama4_text", "deepseek_v3", "gpt2"]
)
def test_one_call_for_all_rows_attends_as_the_loop_does(model_type: str) -> None:
    runner, graphs, chunks = _decoding(model_type)
    expected = runner.run(chunks)
    got = graphs.run(chunks)
    assert expected is not None
    assert got is not None
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_steps_with_a_prefill_and_models_that_bend_scores_go_the_ordinary_way() -> None:
    _, graphs, chunks = _decoding("llama")
    sequence = chunks[0].sequence
    assert graphs.run([Chunk(sequence, 0, 32), *chunks[1:]]) is None
    assert graphs.run(chunks) is not None
    _, bending, chunks = _decoding("gemma2")
    assert bending.run(chunks) is None


def test_logits_that_differ_from_the_ordinary_ones_are_never_used_again() -> None:
    runner, _, chunks = _decoding("llama")
    asked: list[int] = []

    def other(chunks: object) -> torch.Tensor:
        asked.append(1)
        return torch.randn(3, 260)

    graphs = DecodeGraphs(runner._model, runner._pool, other)
    assert graphs.run(chunks) is None
    assert graphs.run(chunks) is None
    assert len(asked) == 1


def _decoding(model_type: str) -> tuple[PackedRunner, DecodeGraphs, list[Chunk]]:
    """Three sequences of unlike lengths, prefilled, with one token to go."""
    model = tiny_model(model_type, **PACKED[model_type])
    shapes = choose._kv_shapes(model, "cpu")
    assert shapes is not None
    model.set_attn_implementation(attention.NAME)
    pool = KvPool(shapes, 9, 32, torch.float32, "cpu")
    for tensor in (*pool.keys, *pool.values):
        tensor.zero_()
    runner = PackedRunner(model, pool)
    sequences = [
        Sequence(key, [(7 * i + key) % 256 for i in range(length)], length, SamplingSpec(), 0, 0.0, blocks=list(held))
        for key, (length, held) in enumerate(zip(LENGTHS, BLOCKS, strict=True))
    ]
    runner.run([Chunk(sequence, 0, len(sequence.ids) - 1) for sequence in sequences])
    chunks = [Chunk(sequence, len(sequence.ids) - 1, 1) for sequence in sequences]
    return runner, DecodeGraphs(model, pool, runner.run), chunks
