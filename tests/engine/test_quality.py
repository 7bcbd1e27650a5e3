"""Perplexity and agreement, against what transformers' own forward passes say about the same tokens."""

from __future__ import annotations

import math

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from app.engine import quality
from app.engine.options import LoadOptions
from app.engine.quality import measure
from app.errors import InvalidRequest
from tests.kit.tiny_models import save_tiny

WINDOW_TOKENS, GIVEN_TOKENS = 80, 30
TEXT = "".join(chr(97 + number * number % 26) for number in range(3 * WINDOW_TOKENS + 50))
"""A token for each character: three windows and a rest."""


@pytest.fixture(autouse=True)
def _short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "WINDOW_TOKENS", WINDOW_TOKENS)
    monkeypatch.setattr(quality, "GIVEN_TOKENS", GIVEN_TOKENS)


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> LoadOptions:
    folder = save_tiny(tmp_path_factory.mktemp("tiny"), "llama")
    return LoadOptions(folder, "cpu", kv_cache_mb=8, context_tokens=512)


def test_perplexity_is_that_of_plain_forward_passes(options: LoadOptions) -> None:
    [found] = measure(options, TEXT, ("none",), most_tokens=10_000, threads=1)
    model = AutoModelForCausalLM.from_pretrained(options.path, dtype=torch.float32).eval()
    total, count = 0.0, 0
    for ids in windows(options):
        with torch.inference_mode():
            scores = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
        following = torch.tensor(ids[GIVEN_TOKENS:])
        total += float(scores[GIVEN_TOKENS - 1 : -1].gather(1, following[:, None]).sum())
        count += len(following)
    assert found.tokens == count == 3 * (WINDOW_TOKENS - GIVEN_TOKENS)
    assert found.perplexity == pytest.approx(math.exp(-total / count), rel=1e-4)
    assert found.agreement == 1.0


def windows(options: LoadOptions) -> list[list[int]]:
    ids = Tokenizer.from_file(str(options.path / "tokenizer.json")).encode(TEXT, add_special_tokens=False).ids
    assert len(ids) == len(TEXT)
    return [ids[first : first + WINDOW_TOKENS] for first in range(0, 3 * WINDOW_TOKENS, WINDOW_TOKENS)]


def test_modes_are_compared_with_the_first_and_reported_as_they_come(options: LoadOptions) -> None:
    seen: list[str] = []
    found = measure(
        options,
        TEXT,
        ("none", "bf16"),
        most_tokens=2 * WINDOW_TOKENS,
        threads=1,
        on_mode=lambda one: seen.append(one.quantization),
    )
    assert seen == ["none", "bf16"] == [one.quantization for one in found]
    exact, rounded = found
    assert exact.tokens == 2 * (WINDOW_TOKENS - GIVEN_TOKENS)
    assert exact.agreement == 1.0
    assert 0.5 < rounded.agreement <= 1.0
    assert rounded.perplexity == pytest.approx(exact.perplexity, rel=0.05)
    assert rounded.perplexity != exact.perplexity


def test_windows_read_one_by_one_say_the_same(options: LoadOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    [together] = measure(options, TEXT, ("bf16",), most_tokens=2 * WINDOW_TOKENS, threads=1)
    monkeypatch.setattr(quality, "_WINDOWS_AT_ONCE", 1)
    [one_by_one] = measure(options, TEXT, ("bf16",), most_tokens=2 * WINDOW_TOKENS, threads=1)
    assert one_by_one.perplexity == pytest.approx(together.perplexity, rel=1e-6)


def test_a_text_shorter_than_a_window_is_refused(options: LoadOptions) -> None:
    with pytest.raises(InvalidRequest, match="use a longer one"):
        measure(options, "short", ("none",), most_tokens=10_000, threads=1)
