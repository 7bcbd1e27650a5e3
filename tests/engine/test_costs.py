from __future__ import annotations

import random

import pytest

from app.engine.costs import StepCost


@pytest.mark.parametrize(("a", "b", "c"), [(6.0, 0.3, 0.05), (30.0, 2.0, 0.0), (0.1, 0.002, 0.0), (8.0, 0.1, 2.0)])
def test_it_learns_how_long_steps_take_on_this_machine(a: float, b: float, c: float) -> None:
    dice, cost = random.Random(1), StepCost()

    def step(tokens: int, attended: int) -> float:
        return a + b * tokens + c * attended / 1000.0

    for _ in range(300):
        tokens = dice.choice((1, 4, 16, 64, 256, 512))
        attended = tokens * dice.randint(10, 2000)
        cost.observe(tokens, attended, step(tokens, attended) * dice.uniform(0.9, 1.1))
    for tokens, attended in ((1, 100), (16, 16_000), (200, 50_000), (512, 131_000)):
        assert cost.predict_ms(tokens, attended) == pytest.approx(step(tokens, attended), rel=0.25, abs=1.0)


@pytest.mark.parametrize("took_ms", [0.05, 8.0, 300.0])
def test_steps_that_are_all_alike_never_drive_the_prediction_away_from_them(took_ms: float) -> None:
    dice, cost = random.Random(2), StepCost()
    for number in range(3000):
        cost.observe(16, 16 * (100 + number), took_ms * dice.uniform(0.8, 1.3) * (20.0 if number % 500 == 7 else 1.0))
    assert cost.predict_ms(16, 16 * 3000) == pytest.approx(took_ms, rel=0.35, abs=1.5)


def test_an_hour_of_decoding_does_not_make_it_forget_what_a_long_prompt_takes() -> None:
    cost = StepCost()
    for _ in range(20):
        cost.observe(256, 33_000, 600.0)
        cost.observe(8, 8 * 400, 20.0)
    before = cost.predict_ms(200, 20_000)
    for _ in range(50_000):
        cost.observe(8, 8 * 400, 20.0)
    assert cost.predict_ms(200, 20_000) == pytest.approx(before, rel=0.1)
    assert before > 300.0


def test_it_follows_a_machine_that_gets_busier() -> None:
    cost = StepCost()
    for speed in (1.0, 3.0):
        for _ in range(100):
            for tokens in (4, 128):
                cost.observe(tokens, tokens * 200, speed * (6.0 + 0.4 * tokens))
    assert cost.predict_ms(128, 128 * 200) == pytest.approx(3.0 * (6.0 + 0.4 * 128), rel=0.2)


def test_more_work_never_takes_less_time() -> None:
    dice, cost = random.Random(3), StepCost()
    for _ in range(500):
        cost.observe(dice.randint(1, 512), dice.randint(1, 200_000), dice.uniform(0.0, 500.0))
        assert cost.predict_ms(10, 1000) <= cost.predict_ms(11, 1000) <= cost.predict_ms(11, 2000)


def test_larger_steps_are_trusted_once_half_as_large_ones_were_seen() -> None:
    cost = StepCost()
    first = cost.trusted_tokens
    cost.observe(first, 1000, 10.0)
    assert cost.trusted_tokens == 2 * first
    cost.observe(1, 1, 10.0)
    assert cost.trusted_tokens == 2 * first
