"""The judge on conversations that never took place: each figure and each fault."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.audio.frames import OUTPUT_FRAME
from app.bench.turns.caller import Happening, Log
from app.bench.turns.cases import Case, Echo, Gap, Made, Must, Say
from app.bench.turns.heard import listen
from app.bench.turns.summary import summarise
from app.bench.turns.timeline import stereo, timeline
from app.bench.turns.verdict import Fault, judge

COMPLETED = "conversation.item.input_audio_transcription.completed"
QUESTION = Case("question", "question", Must.ANSWER, (Say("What is it?"),), "What is it?")
BACKCHANNEL = Case("backchannel", "backchannel", Must.PLAY_ON, (Say("Right."),), over_s=1.5)
COUGH = Case("cough", "noise over", Must.PLAY_ON, (Made("cough", 0.8),), over_s=1.5)
STOP = Case("stop", "stop", Must.STOP, (Say("Stop."),), over_s=1.5)
INTERRUPTION = Case("interruption", "interruption", Must.STOP, (Say("No, Tuesday."),), "No, Tuesday.", over_s=1.5)
NOTHING = Case("silence", "nothing", Must.NOTHING, (Gap(5000),))
GREETING = np.full(48_000 * 9, 3000, np.int16)


class Conversation:
    """Written down in ms; the assistant's first reply sounds like ``GREETING``."""

    def __init__(self, case: Case, marks_ms: tuple[tuple[int, int], ...], length_ms: int = 8000) -> None:
        self.case = case
        self.marks = tuple((first * 16, end * 16) for first, end in marks_ms)
        self.ticks = length_ms // 20
        self.happenings: list[Happening] = []
        self.gains = np.zeros(self.ticks)
        self.replies = np.zeros(self.ticks, int)

    def event(self, at_ms: float, type: str, **fields: object) -> Conversation:
        self.happenings.append(Happening(at_ms / 1000, {"type": type, **fields}))
        return self

    def item(
        self, at_ms: float, words: str, start_ms: int = 1000, end_ms: int = 2000, name: str = "item"
    ) -> Conversation:
        self.event(start_ms + 100, "input_audio_buffer.speech_started", item_id=name, audio_start_ms=start_ms)
        self.event(end_ms + 128, "input_audio_buffer.speech_stopped", item_id=name, audio_end_ms=end_ms)
        return self.event(at_ms, COMPLETED, item_id=name, transcript=words)

    def turn(self, at_ms: float, endpoint: float, name: str = "item", **more: object) -> Conversation:
        return self.event(at_ms, "parley.turn", item_id=name, timings_ms={"endpoint": endpoint}, **more)

    def done(self, at_ms: float, status: str = "completed") -> Conversation:
        return self.event(at_ms, "response.done", response={"status": status})

    def speaks(self, first_ms: int, end_ms: int, gain: float = 1.0, reply: int = 1) -> Conversation:
        self.gains[first_ms // 20 : end_ms // 20] = gain
        self.replies[first_ms // 20 :] = reply
        return self

    def log(self) -> Log:
        frames = np.zeros((self.ticks, OUTPUT_FRAME), np.int16)
        played = np.zeros(self.ticks, np.int64)
        count = 0
        for tick in range(self.ticks):
            if tick and self.replies[tick] != self.replies[tick - 1] and self.replies[tick] > 1:
                count = 0
            played[tick] = count
            if self.gains[tick]:
                frames[tick] = 3000 * self.gains[tick]
                count += OUTPUT_FRAME
        return Log(
            self.case,
            self.marks,
            tuple(sorted(self.happenings, key=lambda item: item.at_s)),
            np.arange(1, self.ticks + 1) * 0.02,
            np.zeros(self.ticks * 320, np.int16),
            frames.reshape(-1),
            played,
        )

    def verdict(self):
        log = self.log()
        return judge(log, listen(log, GREETING if self.case.over_s is not None else GREETING[:0]))


def faults(verdict) -> set[Fault]:
    return {fault for fault, _ in verdict.faults}


def question(**changes: object) -> Conversation:
    return Conversation(replace(QUESTION, **changes), ((1000, 1400), (1600, 2000)))


def test_a_turn_that_is_answered_after_its_end_passes_and_is_timed_from_its_last_sample():
    talk = question().item(2300, "What is it?", end_ms=2030).turn(2600, 250.0, early={"ms": 90.0, "wasted_tokens": 3})
    verdict = talk.speaks(2500, 3500).verdict()
    assert verdict.passed
    assert verdict.endpoint_ms == pytest.approx(280, abs=1), "the detector was 30 ms late, and that counts"
    assert verdict.told_ms == pytest.approx(300, abs=1)
    assert verdict.voice_to_voice_ms == pytest.approx(520, abs=21)
    assert (verdict.early_ms, verdict.wasted_tokens) == (90.0, 3)
    assert verdict.words is not None
    assert verdict.words.errors == 0


def test_traces_that_do_not_tell_of_early_replies_are_no_error():
    verdict = question().item(2300, "What is it?").turn(2600, 250.0).speaks(2500, 3500).verdict()
    assert verdict.passed
    assert verdict.early_ms is None


def test_a_reply_that_is_heard_before_the_end_cuts_in():
    verdict = question().item(1500, "What is it?", end_ms=1400).speaks(1700, 1900).verdict()
    assert Fault.CUT_IN in faults(verdict)
    assert verdict.voice_to_voice_ms is None


def test_a_turn_taken_for_two_is_split_even_if_nothing_was_heard():
    talk = (
        question()
        .item(1500, "What", 1000, 1400, "one")
        .item(2300, "is it?", 1600, 2000, "two")
        .turn(2600, 250.0, "two")
    )
    assert faults(talk.speaks(2500, 3500).verdict()) == {Fault.SPLIT}


def test_a_turn_declared_over_late_or_never_is_missed():
    late = question().item(3700, "What is it?").turn(3900, 1650.0).speaks(3800, 4500).verdict()
    assert faults(late) == {Fault.MISSED_END}
    assert faults(question().verdict()) == {Fault.MISSED_END}


def test_a_turn_without_a_reply_is_unanswered():
    assert faults(question().item(2300, "What is it?").verdict()) == {Fault.UNANSWERED}


def test_a_turn_after_the_last_word_is_made_up():
    talk = question().item(2300, "What is it?").turn(2600, 250.0).speaks(2500, 3500)
    assert faults(talk.item(5000, "Thank you.", 4000, 4400, "other").verdict()) == {Fault.HALLUCINATED}


def test_clocks_that_disagree_are_noted():
    assert question().item(2300, "What is it?").turn(2600, 700.0).speaks(2500, 3500).verdict().notes


def test_a_line_of_parleys_own_is_not_taken_for_the_answer():
    talk = question().item(2300, "What is it?").turn(5600, 250.0).event(4800, "parley.notice", text="One moment.")
    assert talk.speaks(4820, 6500).verdict().voice_to_voice_ms is None


def test_an_answer_that_its_own_echo_stops_is_falsely_interrupted():
    talk = (
        question(echo=Echo(100)).item(2300, "What is it?").turn(2600, 250.0).speaks(2500, 3500).done(3500, "cancelled")
    )
    assert faults(talk.verdict()) == {Fault.FALSE_INTERRUPTION}


def over(case: Case, first_ms: int = 2000, end_ms: int = 2400) -> Conversation:
    return Conversation(case, ((first_ms, end_ms),))


def test_a_reply_that_is_held_for_a_word_and_goes_on_passes():
    talk = over(BACKCHANNEL).speaks(500, 2100).speaks(2100, 2400, gain=0.12).speaks(2640, 7000).done(7000)
    verdict = talk.verdict()
    assert verdict.passed
    assert verdict.held_ms == 240
    assert verdict.ducked_ms == pytest.approx(120, abs=21)


def test_a_reply_that_a_backchannel_or_noise_ends_is_falsely_interrupted():
    for case in (BACKCHANNEL, COUGH):
        assert faults(over(case).speaks(500, 2400).done(2600, "cancelled").verdict()) == {Fault.FALSE_INTERRUPTION}
    assert faults(over(COUGH).speaks(500, 2400).verdict()) == {Fault.FALSE_INTERRUPTION}, "it was held for ever"


def test_what_became_a_turn_though_nobody_said_it_is_hallucinated():
    talk = over(COUGH).speaks(500, 7000).item(2800, "Hm.", 2000, 2400).done(7000)
    assert faults(talk.verdict()) == {Fault.HALLUCINATED}
    talk = over(BACKCHANNEL).speaks(500, 7000).item(2800, "Right.", 2000, 2400).done(7000)
    assert faults(talk.verdict()) == {Fault.FALSE_INTERRUPTION}


def test_a_stop_is_timed_until_ducked_and_until_silent():
    talk = over(STOP).speaks(500, 2160).speaks(2160, 2500, gain=0.12).done(2600, "cancelled")
    verdict = talk.verdict()
    assert verdict.passed
    assert verdict.ducked_ms == pytest.approx(180, abs=21)
    assert verdict.silent_ms == pytest.approx(520, abs=21)


def test_how_loud_a_voice_is_that_never_says_a_thing_twice_alike_is_not_guessed() -> None:
    talk = over(STOP).speaks(500, 2160, gain=0.7).speaks(2160, 2500, gain=0.05).done(2600, "cancelled")
    verdict = talk.verdict()
    assert verdict.ducked_ms is None
    assert verdict.silent_ms == pytest.approx(520, abs=21)


def test_a_stop_that_is_not_obeyed_or_too_late_is_missed():
    assert faults(over(STOP).speaks(500, 7000).done(7000).verdict()) == {Fault.MISSED_INTERRUPTION}
    late = over(STOP).speaks(500, 4600).done(4600, "cancelled").verdict()
    assert faults(late) == {Fault.MISSED_INTERRUPTION}


def test_an_interruption_with_words_wants_an_answer_that_does_not_cut_in():
    talk = over(INTERRUPTION, 2000, 3000).speaks(500, 2500).done(2600, "cancelled")
    assert faults(talk.verdict()) == {Fault.MISSED_END}
    talk.item(3300, "No, Tuesday.", 2000, 3000).turn(3600, 260.0).speaks(3500, 4500, reply=2)
    assert talk.verdict().passed
    hasty = over(INTERRUPTION, 2000, 3000).speaks(500, 2500).done(2600, "cancelled").speaks(2800, 3400, reply=2)
    assert Fault.CUT_IN in faults(hasty.item(3300, "No, Tuesday.", 2000, 3000).verdict())


def test_anything_out_of_nothing_is_hallucinated():
    assert Conversation(NOTHING, ()).verdict().passed
    for talk in (
        Conversation(NOTHING, ()).item(3000, "Thanks for watching!"),
        Conversation(NOTHING, ()).event(3000, "response.created", response={}),
        Conversation(NOTHING, ()).event(3000, "parley.notice", text="I did not hear you."),
    ):
        assert faults(talk.verdict()) == {Fault.HALLUCINATED}


def test_the_summary_counts_each_kind_among_the_cases_where_it_can_happen():
    verdicts = [
        question()
        .item(2300, "What is it?")
        .turn(2600, 250.0, early={"ms": 80.0, "wasted_tokens": 2})
        .speaks(2500, 3500)
        .verdict(),
        question().item(1500, "What is", end_ms=1400).speaks(1700, 1900).speaks(2500, 2700).verdict(),
        over(BACKCHANNEL).speaks(500, 2400).done(2600, "cancelled").verdict(),
        over(STOP).speaks(500, 2160).done(2600, "cancelled").verdict(),
        Conversation(NOTHING, ()).verdict(),
    ]
    summary = summarise(verdicts)
    assert (summary.cases, summary.passed) == (5, 3)
    assert (summary.false_cut_ins.count, summary.false_cut_ins.among) == (1, 2)
    assert (summary.false_interruptions.count, summary.false_interruptions.among) == (1, 1)
    assert (summary.missed_interruptions.count, summary.missed_interruptions.among) == (0, 1)
    assert summary.hallucinated_turns.count == 0
    assert (summary.early_turns.count, summary.early_turns.among) == (1, 1)
    assert summary.wasted_tokens == 2
    assert (summary.words.said, summary.words.errors) == (6, 1)
    assert summary.stop_silent_ms is not None
    assert summary.stop_silent_ms.p50 == pytest.approx(180, abs=21)
    assert summarise([]).endpoint_ms is None


def test_a_timeline_tells_both_sides_in_order():
    log = over(STOP).speaks(500, 2160).speaks(2160, 2500, gain=0.12).done(2600, "cancelled").log()
    lines = timeline(log, listen(log, GREETING))
    told = [line[9:] for line in lines]
    for earlier, later in (
        ("ASSISTANT is heard", "USER sounds"),
        ("USER sounds", "ASSISTANT is turned down to -18 dB"),
        ("ASSISTANT is turned down to -18 dB", "reply cancelled"),
    ):
        assert told.index(earlier) < told.index(later)
    assert stereo(log).shape == (len(log.assistant), 2)
