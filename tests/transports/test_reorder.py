from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.transports.webrtc.reorder import PATIENCE_S, Reorderer


def feed(sequences: list[int], step_s: float = 0.02) -> tuple[list[int], Reorderer[int]]:
    reorderer: Reorderer[int] = Reorderer()
    out: list[int] = []
    for index, sequence in enumerate(sequences):
        now = index * step_s
        out += reorderer.expire(now)
        out += reorderer.push(sequence, sequence, now)
    return out, reorderer


def test_packets_in_order_pass_at_once() -> None:
    assert feed([7, 8, 9])[0] == [7, 8, 9]


def test_two_swapped_packets_are_put_right() -> None:
    assert feed([1, 3, 2, 4])[0] == [1, 2, 3, 4]


def test_a_lost_packet_is_given_up_after_the_patience() -> None:
    out, reorderer = feed([1, 3, 4, 5, 6])
    assert out == [1, 3, 4, 5, 6]
    assert reorderer.lost == 1


def test_a_burst_longer_than_the_patience_is_not_waited_for() -> None:
    out, reorderer = feed([1, 11])
    assert out == [1, 11]
    assert reorderer.lost == 9


def test_a_gap_at_the_end_is_given_up_by_the_clock_alone() -> None:
    out, reorderer = feed([1, 3])
    assert out == [1]
    assert reorderer.deadline is not None
    assert reorderer.expire(reorderer.deadline) == [3]


def test_late_and_duplicate_packets_are_dropped() -> None:
    assert feed([1, 2, 2, 1, 3])[0] == [1, 2, 3]


def test_sequence_numbers_wrap_around() -> None:
    assert feed([65534, 65535, 0, 1])[0] == [65534, 65535, 0, 1]
    assert feed([65534, 0, 65535, 1])[0] == [65534, 65535, 0, 1]


def test_a_stream_that_starts_anew_is_followed() -> None:
    assert feed([100, 101, 40_000, 40_001])[0] == [100, 101, 40_000, 40_001]
    assert feed([800, 801, 300, 301])[0] == [800, 801, 300, 301]


@given(st.permutations(range(12)), st.sets(st.integers(1, 11), max_size=4))
def test_what_comes_out_is_ordered_and_nothing_waits_longer_than_the_patience(order: list[int], lost: set[int]) -> None:
    arrivals = [0, *[number for number in order if number not in lost and number != 0]]
    out, reorderer = feed(arrivals, step_s=0.005)
    if reorderer.deadline is not None:
        assert reorderer.deadline - (len(arrivals) - 1) * 0.005 <= PATIENCE_S + 1e-9
        out += reorderer.expire(reorderer.deadline)
    assert out == sorted(out)
    assert len(out) == len(set(out))
