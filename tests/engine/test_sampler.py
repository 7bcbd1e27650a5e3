from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.messages import SamplingSpec
from app.engine.sampler import NOT_FINITE, NOTHING_ALLOWED, Sampler, likeliest, uniform
from app.engine.sequence import Draw, Sequence

VOCABULARY = 3001
"""Neither a multiple of the block that is searched nor smaller than the likeliest tokens that are looked at."""

SPECS = [
    SamplingSpec(),
    SamplingSpec(repetition_penalty=1.3),
    SamplingSpec(presence_penalty=0.7, frequency_penalty=0.4, logprobs=5),
    SamplingSpec(logit_bias={7: 30.0, 11: -100.0}),
    SamplingSpec(temperature=1.0),
    SamplingSpec(temperature=0.8, top_p=0.9, logprobs=0),
    SamplingSpec(temperature=1.4, top_p=0.97, repetition_penalty=1.1),
    SamplingSpec(temperature=0.7, top_k=40),
    SamplingSpec(temperature=1.0, top_k=300, top_p=0.5),
    SamplingSpec(temperature=1.0, min_p=0.05),
    SamplingSpec(temperature=1.2, min_p=0.001, top_p=0.9, top_k=1000),
]


def sequence(spec: SamplingSpec, *, key: int = 1, prompt: int = 3, reply: list[int] | None = None) -> Sequence:
    ids = [5] * prompt + (reply or [])
    return Sequence(key, ids, prompt, spec, seed=key * 77, arrived_s=0.0)


def noise(rows: int, seed: int = 0, *, spread: float = 3.0, width: int = VOCABULARY) -> torch.Tensor:
    """As models give them: bf16, so that many logits are equal."""
    return (torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)) * spread).bfloat16()


def reference(logits: torch.Tensor, spec: SamplingSpec, reply: list[int], point: float) -> int:
    """The same rules in double precision, over the sorted vocabulary."""
    scores = logits.double().numpy().copy()
    for token, added in spec.logit_bias.items():
        scores[token] += added
    for token, count in Counter(reply).items():
        value = scores[token]
        value = value / spec.repetition_penalty if value > 0 else value * spec.repetition_penalty
        scores[token] = value - spec.presence_penalty - spec.frequency_penalty * count
    order = np.argsort(-scores, kind="stable")
    if spec.temperature == 0.0:
        return int(order[0])
    weights = np.exp((scores[order] - scores[order[0]]) / spec.temperature)
    weights /= weights.sum()
    if spec.top_k:
        weights[spec.top_k :] = 0.0
        weights /= weights.sum()
    before = weights.cumsum() - weights
    weights[before >= spec.top_p] = 0.0
    weights[weights < spec.min_p * weights[0]] = 0.0
    edges = weights.cumsum() / weights.sum()
    close = np.abs(edges - point) < 1e-5
    if close.any():
        return -1  # on an edge, where rounding decides
    return int(order[np.searchsorted(edges, point, side="right")])


@pytest.mark.parametrize("spread", [0.0, 0.5, 3.0, 20.0])
@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.temperature and spec != SPECS[4]])
def test_filtered_draws_are_those_of_the_sorted_vocabulary(spec: SamplingSpec, spread: float) -> None:
    logits = noise(40, 3, spread=spread)
    reply = [1, 2, 2, 900, 3]
    sequences = [sequence(spec, key=key, reply=reply) for key in range(40)]
    edges = 0
    for row, draw in enumerate(Sampler().draw(logits, sequences)):
        expected = reference(logits[row], spec, reply, uniform(sequences[row].seed, len(sequences[row].ids)))
        edges += expected < 0
        assert draw.token == expected or expected < 0
    assert edges < 10


@pytest.mark.parametrize("spec", SPECS[:4])
def test_greedy_draws_are_the_likeliest_after_penalties_and_bias(spec: SamplingSpec) -> None:
    logits = noise(20, 4)
    reply = logits.float().topk(3).indices[:, 0].tolist()
    draws = Sampler().draw(logits, [sequence(spec, key=key, reply=reply) for key in range(20)])
    assert [draw.token for draw in draws] == [reference(row, spec, reply, 0.0) for row in logits]


@pytest.mark.parametrize("spread", [0.0, 3.0])
def test_top_p_of_zero_leaves_the_likeliest_alone(spread: float) -> None:
    logits = noise(20, 6, spread=spread)
    draws = Sampler().draw(logits, [sequence(SamplingSpec(temperature=1.5, top_p=0.0), key=key) for key in range(20)])
    assert [draw.token for draw in draws] == [reference(row, SamplingSpec(), [], 0.0) for row in logits]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_row_is_drawn_alike_alone_and_in_any_company(dtype: torch.dtype) -> None:
    logits = noise(44, 5, width=49152).to(dtype)
    sequences = [sequence(SPECS[key % len(SPECS)], key=key, reply=list(range(key))) for key in range(44)]
    together = Sampler().draw(logits, sequences)
    alone = [Sampler().draw(logits[row : row + 1], [sequences[row]])[0] for row in range(44)]
    assert together == alone  # log-probabilities too, to the last bit
    some = list(range(43, 0, -3))
    assert Sampler().draw(logits[some], [sequences[row] for row in some]) == [together[row] for row in some]


def test_the_models_output_is_left_as_it_was() -> None:
    logits = noise(len(SPECS)).float()
    before = logits.clone()
    Sampler().draw(logits, [sequence(spec, key=key, reply=[1, 2]) for key, spec in enumerate(SPECS)])
    assert torch.equal(logits, before)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 400), st.sampled_from([-torch.inf, torch.nan, torch.inf, 9.5]))
def test_the_likeliest_is_the_first_of_the_highest(seed: int, width: int, odd: float) -> None:
    scores = noise(5, seed, width=width).float()
    scores[2, seed % width] = odd
    best, chosen = likeliest(scores)
    assert torch.equal(chosen, scores.argmax(-1))
    assert torch.equal(best.nan_to_num(1e30), scores.amax(-1).nan_to_num(1e30))


def test_penalties_follow_a_growing_reply_and_one_that_is_computed_again() -> None:
    spec = SamplingSpec(repetition_penalty=1.5, frequency_penalty=0.3, presence_penalty=0.2)
    sampler, logits = Sampler(), noise(1, 6)
    growing = sequence(spec)
    for _ in range(300):
        (draw,) = sampler.draw(logits, [growing])
        assert draw == Sampler().draw(logits, [growing])[0]
        assert sampler.draw(logits, [growing])[0] == draw
        growing.ids.append(draw.token)
    assert len(set(growing.reply)) > 100
    sampler.forget(growing.key)
    assert sampler.draw(logits, [growing]) == Sampler().draw(logits, [growing])


def test_draws_come_as_often_as_their_probability_says() -> None:
    logits = torch.full((1, 200), -30.0)
    logits[0, :100] = torch.linspace(0.0, 2.0, 100)  # more tokens than are looked at first
    sampler = Sampler()
    counts = torch.zeros(200)
    one = sequence(SamplingSpec(temperature=1.0))
    for _ in range(6000):
        one.ids.append(0)
        counts[sampler.draw(logits, [one])[0].token] += 1
    expected = logits[0].softmax(-1) * 6000
    assert counts[100:].sum() == 0
    chi_square = float(((counts - expected)[:100].square() / expected[:100]).sum())
    assert chi_square < 99 + 5 * math.sqrt(2 * 99)


def test_a_seed_repeats_a_draw_and_another_changes_it() -> None:
    spec = SamplingSpec(temperature=1.0)
    logits = noise(1, 8, spread=1.0).expand(50, -1)
    first = [draw.token for draw in Sampler().draw(logits, [sequence(spec, key=key) for key in range(50)])]
    again = [draw.token for draw in Sampler().draw(logits, [sequence(spec, key=key) for key in range(50)])]
    longer = [draw.token for draw in Sampler().draw(logits, [sequence(spec, key=key, prompt=4) for key in range(50)])]
    assert first == again
    assert first != longer
    assert len(set(first)) > 30


def test_log_probabilities_are_the_models_own() -> None:
    spec = SamplingSpec(temperature=0.9, top_k=2, logit_bias={3: 50.0}, logprobs=20)
    logits = noise(1, 9)
    (draw,) = Sampler().draw(logits, [sequence(spec)])
    expected = logits[0].double().log_softmax(-1)
    assert draw.token == 3
    assert draw.logprob == pytest.approx(float(expected[3]), abs=1e-4)
    assert [token for token, _ in draw.top] == np.argsort(-logits[0].float().numpy(), kind="stable")[:20].tolist()
    assert [value for _, value in draw.top] == pytest.approx(
        expected.sort(descending=True).values[:20].tolist(), abs=1e-4
    )


def test_none_or_no_log_probabilities_where_none_are_asked_for() -> None:
    logits = noise(2)
    without, own = Sampler().draw(logits, [sequence(SamplingSpec()), sequence(SamplingSpec(logprobs=0), key=2)])
    assert without == Draw(without.token)
    assert own.logprob is not None
    assert own.top == ()


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
@pytest.mark.parametrize("spec", SPECS)
def test_a_row_that_is_not_a_number_fails_alone(spec: SamplingSpec, broken: float) -> None:
    logits = noise(3)
    good = Sampler().draw(logits, [sequence(spec, key=key) for key in range(3)])
    logits[1, VOCABULARY - 2] = broken
    draws = Sampler().draw(logits, [sequence(spec, key=key) for key in range(3)])
    assert draws[1].fault == NOT_FINITE
    assert [draws[0], draws[2]] == [good[0], good[2]]


def test_a_row_where_nothing_may_follow_fails_alone() -> None:
    logits = torch.full((2, 300), -torch.inf)
    logits[:, 4] = 1.0
    specs = [SamplingSpec(logit_bias={4: -torch.inf}, temperature=1.0), SamplingSpec()]
    draws = Sampler().draw(logits, [sequence(spec, key=key) for key, spec in enumerate(specs)])
    assert draws[0].fault == NOTHING_ALLOWED
    assert draws[1].token == 4


@pytest.mark.parametrize("filters", [{}, {"min_p": 0.1}, {"top_k": 3, "top_p": 0.5}], ids=str)
@pytest.mark.parametrize("temperature", [1e-300, 1e-30, 1e-6, 1e-3, 1e30])
def test_extreme_temperatures_are_still_distributions(temperature: float, filters: dict[str, float]) -> None:
    spec = SamplingSpec(temperature=temperature, **filters)  # type: ignore[arg-type]
    (draw,) = Sampler().draw(noise(1), [sequence(spec)])
    assert 0 <= draw.token < VOCABULARY
    if temperature < 1:
        assert draw.token == int(noise(1)[0].float().argmax())
