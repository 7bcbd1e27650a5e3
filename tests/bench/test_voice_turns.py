"""What is made of a turn: from what was said, heard and told to the figures of a table."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from app.bench.voice.call import Microphone, Said
from app.bench.voice.caller import Line, Lines, plan
from app.bench.voice.listening import Heard
from app.bench.voice.packets import PACKET_S, Spoken
from app.bench.voice.summary import REMAINDER, spread, waterfall, word_error_rate
from app.bench.voice.turn import Asked, Turn, measured
from tests.kit.virtual_time import run_virtual


def sounds(*spans: tuple[float, float, float]) -> Heard:
    """20 s of silence with (from s, to s, level dBFS) in it."""
    times = np.arange(1000) * PACKET_S
    levels = np.full(1000, float("-inf"))
    for start_s, end_s, level in spans:
        levels[(times >= start_s) & (times < end_s)] = level
    peak = np.rint(32768 * 10 ** (levels / 20) * 1.4).astype(np.int64)
    return Heard(times, np.arange(1000) * 960, peak, levels)


def told(at_s: float, type: str, **fields: Any) -> tuple[float, dict[str, Any]]:
    return at_s, {"type": type, **fields}


def reply(
    began_s: float, ended_s: float, status: str = "completed", id: str = "r"
) -> list[tuple[float, dict[str, Any]]]:
    return [
        told(began_s, "response.created", response={"id": id}),
        told(began_s + 0.4, "parley.heard", response_id=id, chars=4),
        told(ended_s, "response.output_audio_transcript.done", response_id=id, transcript=f"Reply {id}."),
        told(ended_s, "response.done", response={"id": id, "status": status}),
    ]


def words(at_s: float, text: str = "What time is it?") -> tuple[float, dict[str, Any]]:
    return told(at_s, "conversation.item.input_audio_transcription.completed", transcript=text)


def asked(stop: Said | None = None, over_s: float = 15.0) -> Asked:
    return Asked(0, 3, "What time is it?", "hibari", Said(1.0, 3.0), over_s, stop)


def test_an_answered_turn_has_its_latency_text_and_waterfall() -> None:
    turn_event = told(3.6, "parley.turn", timings_ms={"endpoint": 200.0, "voice_to_voice": 480.0}, early={"ms": 90.0})
    turn = measured(asked(), sounds((3.5, 6.0, -20.0)), [words(3.2), *reply(3.2, 6.0), turn_event])
    assert turn.answered
    assert turn.voice_to_voice_ms == pytest.approx(500.0, abs=1e-6)
    assert (turn.recognised, turn.reply) == ("What time is it?", "Reply r.")
    assert turn.timings_ms["endpoint"] == 200.0
    assert turn.early == {"ms": 90.0}
    assert not turn.cut_in
    assert turn.gaps == ()


@pytest.mark.parametrize(
    ("heard", "events"),
    [
        (sounds(), [words(3.2), *reply(3.2, 3.4, "failed")]),
        (sounds(), []),
        (sounds((3.5, 4.0, -20.0)), [told(3.4, "parley.notice", code="not_heard")]),
        (sounds((3.5, 4.0, -20.0)), [*reply(3.2, 4.0)]),
        (sounds((3.5, 4.0, -20.0)), [words(3.2), *reply(3.2, 4.0, "failed")]),
    ],
    ids=["no sound", "nothing at all", "an apology", "nothing understood", "broken off"],
)
def test_a_turn_without_a_whole_answer_is_not_answered(heard: Heard, events: list[Any]) -> None:
    assert not measured(asked(), heard, events).answered


def test_one_moment_is_not_the_answer() -> None:
    heard = sounds((5.6, 6.4, -20.0), (8.0, 10.0, -20.0))
    events = [words(3.2), *reply(3.2, 10.0), told(5.5, "parley.notice", code="one_moment")]
    events[2] = told(8.4, "parley.heard", response_id="r", chars=4)
    turn = measured(asked(), heard, sorted(events, key=lambda event: event[0]))
    assert turn.answered
    assert turn.voice_to_voice_ms == pytest.approx(5000.0, abs=1e-6)
    assert turn.notices == ("one_moment",)


def test_speaking_before_the_question_is_over_is_a_cut_in() -> None:
    turn = measured(asked(), sounds((2.0, 2.3, -20.0), (3.5, 5.0, -20.0)), [words(3.2), *reply(3.2, 5.0)])
    assert turn.cut_in
    assert turn.voice_to_voice_ms == pytest.approx(500.0, abs=1e-6)


def test_an_obeyed_stop_is_timed_and_the_reply_to_it_is_not_taken_for_the_reply() -> None:
    heard = sounds((3.5, 5.1, -20.0), (5.1, 5.4, -38.0), (7.0, 8.0, -20.0))
    events = [words(3.2), *reply(3.2, 5.5, "cancelled"), words(5.5, "Stop."), *reply(5.6, 8.0, id="next")]
    turn = measured(asked(Said(5.0, 5.4)), heard, events)
    assert turn.answered
    assert (turn.recognised, turn.reply) == ("What time is it?", "Reply r.")
    assert turn.stop is not None
    assert turn.stop.obeyed
    assert turn.stop.ducked_ms == pytest.approx(100.0, abs=21)
    assert turn.stop.silent_ms == pytest.approx(400.0, abs=21)


def test_a_reply_that_goes_on_after_a_stop_has_not_obeyed() -> None:
    turn = measured(asked(Said(5.0, 5.4)), sounds((3.5, 9.0, -20.0)), [words(3.2), *reply(3.2, 9.0)])
    assert turn.stop is not None
    assert not turn.stop.obeyed


def test_a_stop_that_came_too_late_counts_neither_way() -> None:
    turn = measured(asked(Said(5.0, 5.4)), sounds((3.5, 5.04, -20.0)), [words(3.2), *reply(3.2, 5.1)])
    assert turn.stop is None


def test_word_errors_are_counted_over_all_words_and_punctuation_is_none() -> None:
    assert word_error_rate([("Don't stop, now!", "don't stop now")]) == 0.0
    assert word_error_rate([("one two three four", "one too three four five")]) == pytest.approx(0.5)
    assert word_error_rate([("one two", ""), ("three four", "three four")]) == pytest.approx(0.5)
    assert word_error_rate([]) == 0.0


def test_a_spread_leaves_out_what_is_not_there() -> None:
    assert spread([None]) is None
    found = spread([None, 100.0, 200.0, 300.0])
    assert found is not None
    assert (found.count, found.p50, found.max) == (3, 200.0, 300.0)


def test_the_remainder_is_what_the_server_does_not_know_of() -> None:
    def turn(total_ms: float, server_ms: float, answered: bool = True) -> Turn:
        timings = {"endpoint": 200.0, "voice_to_voice": server_ms}
        return Turn(0, 0, "", "", "", "", answered, total_ms, False, timings, None, (), (), None)

    stages = waterfall([turn(500.0, 450.0), turn(700.0, 640.0), turn(9000.0, 10.0, answered=False)])
    assert stages == {"endpoint": 200.0, "voice_to_voice": 545.0, REMAINDER: pytest.approx(55.0)}


def line(text: str) -> Line:
    return Line(text, "hibari", Spoken((b"",), 0, 0))


LINES = Lines(tuple(line(f"q{at}") for at in range(12)), tuple(line(f"l{at}") for at in range(4)), (line("stop"),))


def test_twelve_turns_are_twelve_questions_three_of_which_are_interrupted() -> None:
    planned = plan(LINES, 12, Random(5))
    assert len({turn.line.text for turn in planned}) == 12
    interrupted = [turn for turn in planned if turn.stop is not None]
    assert len(interrupted) == 3
    assert all(turn.line.text.startswith("l") for turn in interrupted)
    assert plan(LINES, 12, Random(5)) == planned
    assert plan(LINES, 12, Random(6)) != planned


@pytest.mark.parametrize("turns", [1, 2, 3, 40])
def test_any_number_of_turns_can_be_planned(turns: int) -> None:
    planned = plan(LINES, turns, Random(1))
    assert len(planned) == turns
    assert sum(turn.stop is not None for turn in planned) == max(1, turns // 4)


def test_a_microphone_knows_when_the_first_and_the_last_packet_of_speech_left() -> None:
    async def main() -> None:
        import asyncio

        microphone = Microphone((b"room",))
        sent: list[tuple[float, bytes]] = []

        async def pull() -> None:
            while True:
                packet = await microphone.recv()
                sent.append((asyncio.get_running_loop().time(), bytes(packet)))

        pulling = asyncio.create_task(pull())
        await asyncio.sleep(0.5)
        said = await microphone.say(Spoken((b"0", b"first", b"2", b"last", b"4"), 1, 3))
        await asyncio.sleep(0.5)
        pulling.cancel()
        at_s = {payload: moment for moment, payload in sent}
        assert (said.first_s, said.last_s) == (at_s[b"first"], at_s[b"last"])
        assert said.last_s - said.first_s == pytest.approx(2 * PACKET_S)
        gaps = np.diff([moment for moment, _ in sent])
        assert np.allclose(gaps, PACKET_S)
        assert sent[-1][1] == b"room"

    run_virtual(main())
