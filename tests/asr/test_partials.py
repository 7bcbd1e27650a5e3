from __future__ import annotations

import pytest

from app.asr.partials import PartialBudget


def test_at_most_a_quarter_of_the_time_goes_to_partials_whatever_they_cost():
    now, working = 0.0, 0.0
    budget = PartialBudget(clock=lambda: now)
    costs = [0.05, 0.4, 0.15]
    while now < 60:
        now += budget.wait_s
        cost = costs[int(now) % 3]
        now, working = now + cost, working + cost
        budget.spent(cost)
    assert 0.2 < working / now <= 0.26


def test_the_first_may_begin_at_once_and_the_wait_runs_off():
    now = 100.0
    budget = PartialBudget(clock=lambda: now)
    assert budget.wait_s == 0.0
    budget.spent(0.2)
    assert budget.wait_s == pytest.approx(0.6)
    now += 0.7
    assert budget.wait_s == 0.0
