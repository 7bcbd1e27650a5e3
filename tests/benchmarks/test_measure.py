from __future__ import annotations

import json

import pytest

from benchmarks.measure import Reply, fold, percentile, summarise


def reply(sent_s: float, *stamps_s: float, wanted: int | None = None) -> Reply:
    tokens = len(stamps_s)
    return Reply(sent_s, stamps_s, stamps_s[-1], tokens, tokens if wanted is None else wanted, prompt_tokens=10)


def test_a_percentile_lies_between_its_neighbours() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 50) == 2.5
    assert percentile([7.0], 99) == 7.0
    assert percentile([0.0, 10.0], 95) == pytest.approx(9.5)
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_the_figures_of_a_run_come_from_what_its_readers_saw() -> None:
    figures = summarise([[reply(0.0, 0.1, 0.2, 0.4)], [reply(0.1, 0.5, 0.6, wanted=3)]])
    assert figures["wall_s"] == pytest.approx(0.6)
    assert figures["tokens"] == 5
    assert figures["tok_s"] == pytest.approx(5 / 0.6)
    assert figures["ttft_p50_ms"] == pytest.approx(250)
    assert figures["gap_max_ms"] == pytest.approx(200)
    assert figures["token_p50_ms"] == pytest.approx(125)
    assert figures["latency_mean_s"] == pytest.approx(0.45)
    assert figures["wrong_length"] == 1


def test_a_turn_has_its_own_time_to_first_token() -> None:
    figures = summarise([[reply(0.0, 0.3, 0.4), reply(1.0, 1.1, 1.2)], [reply(0.0, 0.5, 0.6), reply(1.0, 1.3, 1.4)]])
    assert figures["ttft_turn1_p50_ms"] == pytest.approx(400)
    assert figures["ttft_turn2_p50_ms"] == pytest.approx(200)
    assert "ttft_turn1_p50_ms" not in summarise([[reply(0.0, 0.1)]])


def test_a_reply_that_is_not_streamed_has_its_first_token_at_its_end() -> None:
    figures = summarise([[Reply(1.0, (), 3.0, 8, 8)]])
    assert figures["ttft_p50_ms"] == pytest.approx(2000)
    assert "gap_max_ms" not in figures


def test_runs_fold_to_lowest_median_and_highest_of_what_all_have() -> None:
    assert fold([{"a": 3.0, "b": 1.0}, {"a": 1.0}, {"a": 2.0, "b": 5.0}]) == {"a": (1.0, 2.0, 3.0)}


def test_a_reply_survives_the_way_between_processes() -> None:
    there = reply(0.25, 0.5, 0.75)
    assert Reply.from_json(json.loads(json.dumps(there.as_json()))) == there
