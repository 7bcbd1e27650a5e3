"""The measures, on packets made by hand: each must see what is there, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from app.bench.voice.call import Arrivals
from app.bench.voice.listening import Heard, gaps, last_sound, onset, yielding

LOUD_DB, NOTHING = -20.0, float("-inf")


def heard(levels_db: Sequence[float], at_s: Sequence[float] | None = None) -> Heard:
    """A packet every 20 ms from 0 s on, each with such a level."""
    levels = np.array(levels_db, np.float64)
    times = np.arange(len(levels)) * 0.02 if at_s is None else np.array(at_s, np.float64)
    peak = np.rint(32768 * 10 ** (levels / 20) * 1.4).astype(np.int64)
    return Heard(times, np.arange(len(levels)) * 960, peak, levels)


def test_a_reply_begins_with_its_first_audible_packet() -> None:
    call = heard([NOTHING] * 10 + [-70.0] * 5 + [LOUD_DB] * 5 + [NOTHING] * 5)
    assert onset(call, 0.0, 1.0) == pytest.approx(15 * 0.02)
    assert last_sound(call, 0.0, 1.0) == pytest.approx(19 * 0.02)


def test_sound_from_before_the_end_of_the_question_is_not_the_reply() -> None:
    call = heard([LOUD_DB] * 5 + [NOTHING] * 5 + [LOUD_DB] * 5)
    assert onset(call, 0.11, 1.0) == pytest.approx(10 * 0.02)


def test_silence_has_no_beginning() -> None:
    assert onset(heard([-60.0] * 50), 0.0, 1.0) is None


def test_packets_as_regular_as_a_clock_have_no_gap() -> None:
    assert gaps(heard([LOUD_DB] * 100), 0.0, 2.0) == []


@pytest.mark.parametrize(("stall_s", "expected"), [(0.05, 0), (0.1, 1), (0.5, 1)])
def test_a_stall_is_a_gap_if_it_is_longer_than_any_jitter_buffer(stall_s: float, expected: int) -> None:
    times = [at * 0.02 + (stall_s if at >= 50 else 0.0) for at in range(100)]
    found = gaps(heard([LOUD_DB] * 100, times), 0.0, 3.0)
    assert len(found) == expected
    assert all(gap.kind == "late" and gap.ms == pytest.approx(1000 * stall_s) for gap in found)


def test_what_follows_in_a_burst_after_a_stall_is_not_a_second_gap() -> None:
    """Five packets are held up and arrive together: one gap of the 80 ms that the first of them was late."""
    times = [0.98 + 0.1 if 50 <= at < 55 else at * 0.02 for at in range(100)]
    found = gaps(heard([LOUD_DB] * 100, times), 0.0, 3.0)
    assert [round(gap.ms) for gap in found] == [80]


@pytest.mark.parametrize(("silent_packets", "expected"), [(12, 0), (15, 0), (16, 1), (25, 1)])
def test_silence_is_a_gap_once_no_pause_of_the_voice_explains_it(silent_packets: int, expected: int) -> None:
    call = heard([LOUD_DB] * 50 + [NOTHING] * silent_packets + [LOUD_DB] * 50)
    found = gaps(call, 0.0, 4.0)
    assert len(found) == expected
    assert all(gap.kind == "dry" and gap.ms == pytest.approx(20 * silent_packets - 240) for gap in found)


def test_a_quiet_passage_is_no_gap_and_neither_is_the_silence_around_a_reply() -> None:
    assert gaps(heard([NOTHING] * 50 + [LOUD_DB] * 50 + [-45.0] * 30 + [LOUD_DB] * 50 + [NOTHING] * 50), 0.0, 6.0) == []


def test_a_duck_and_a_stop_are_timed_from_the_first_sample_of_the_interruption() -> None:
    speech = [LOUD_DB, -26.0, -23.0, -30.0] * 25
    call = heard([*speech, *([LOUD_DB] * 8), *([LOUD_DB - 18.0] * 15), *([NOTHING] * 30)])
    way = yielding(call, 2.0, 3.0)
    assert way is not None
    assert way.ducked_ms == pytest.approx(160.0)
    assert way.silent_ms == pytest.approx(460.0)


def test_ten_decibels_are_no_duck() -> None:
    call = heard([LOUD_DB] * 108 + [LOUD_DB - 10.0] * 15 + [NOTHING] * 30)
    way = yielding(call, 2.0, 3.0)
    assert way is not None
    assert way.ducked_ms == way.silent_ms == pytest.approx(460.0)


def test_a_pause_in_the_reply_is_no_duck_if_it_goes_on_as_loud_as_before() -> None:
    call = heard([LOUD_DB] * 102 + [-60.0] * 8 + [LOUD_DB] * 10 + [NOTHING] * 30)
    way = yielding(call, 2.0, 2.9)
    assert way is not None
    assert way.ducked_ms == pytest.approx(400.0)


def test_a_reply_that_never_falls_silent_has_no_time_for_it() -> None:
    way = yielding(heard([LOUD_DB] * 200), 2.0, 3.0)
    assert way is not None
    assert way.ducked_ms is None
    assert way.silent_ms is None


def test_nobody_gives_way_who_was_not_speaking() -> None:
    assert yielding(heard([NOTHING] * 200), 2.0, 3.0) is None


def test_timestamps_go_on_counting_where_rtp_wraps_around() -> None:
    arrivals = Arrivals()
    for at in range(4):
        arrivals.add(at * 0.02, ((1 << 32) - 1920 + 960 * at) % (1 << 32), b"\xf8\xff\xfe")
    assert np.diff(arrivals.timestamps).tolist() == [960, 960, 960]


def test_packets_that_overtook_each_other_are_decoded_in_the_order_of_their_sending() -> None:
    from app.bench.voice.packets import encode

    tone = (8000 * np.sin(np.arange(9600) * 0.05)).astype(np.int16)
    packets = encode(tone)
    in_order, swapped = Arrivals(), Arrivals()
    for at, payload in enumerate(packets):
        in_order.add(at * 0.02, at * 960, payload)
    for at in (0, 1, 3, 2, *range(4, len(packets))):
        swapped.add(at * 0.02, at * 960, packets[at])
    assert Heard.of(swapped).level_dbfs.tolist() == Heard.of(in_order).level_dbfs.tolist()
