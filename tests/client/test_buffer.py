"""Uneven arrival becomes even sound."""

from __future__ import annotations

import numpy as np

from app.client.buffer import NetworkBuffer

_PIECE = np.full(480, 5000, "<i2").tobytes()
_PAUSE = bytes(960)


def sounding(buffer: NetworkBuffer) -> bool:
    return bool(np.abs(buffer.pull(480)).max() > 1000)


def test_nothing_sounds_until_there_is_a_little_in_store() -> None:
    buffer = NetworkBuffer()
    buffer.push(_PIECE)
    assert not sounding(buffer)
    buffer.push(_PIECE)
    buffer.push(_PIECE)
    assert sounding(buffer)


def test_every_pull_gives_what_was_asked_whatever_the_pieces() -> None:
    buffer = NetworkBuffer()
    for length in (1, 7, 481, 2000, 3):
        buffer.push(bytes(length))
    assert [len(buffer.pull(count)) for count in (480, 1, 5000, 480)] == [480, 1, 5000, 480]


def test_sound_survives_jitter_that_the_store_covers() -> None:
    buffer = NetworkBuffer()
    heard = []
    for arrives in (3, 0, 2, 1, 0, 2, 1, 1, 0, 2):
        for _ in range(arrives):
            buffer.push(_PIECE)
        heard += [sounding(buffer), sounding(buffer)]
    assert all(heard)
    assert buffer.gaps == 0


def test_a_gap_in_speech_is_counted_and_makes_the_store_larger() -> None:
    buffer = NetworkBuffer()

    def started_with() -> int:
        pieces = 0
        while not sounding(buffer):
            buffer.push(_PIECE)
            pieces += 1
        return pieces

    first = started_with()
    while sounding(buffer):
        pass
    assert buffer.gaps == 1
    assert started_with() > first


def test_silence_beyond_the_surplus_is_left_out_and_speech_is_not() -> None:
    buffer = NetworkBuffer()
    for _ in range(50):
        buffer.push(_PAUSE)
    assert buffer.stored_s < 0.35
    for _ in range(50):
        buffer.push(_PIECE)
    assert buffer.stored_s > 1.0


def test_a_reader_that_stands_still_does_not_fill_the_memory() -> None:
    buffer = NetworkBuffer()
    for _ in range(2000):
        buffer.push(_PIECE)
    assert buffer.stored_s <= 10.0
