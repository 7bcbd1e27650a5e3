"""Orders of events that are rare, and went wrong once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.asr import Transcript
from app.errors import Overloaded
from tests.kit.script import FakeLanguageModel, FakeRecognizer, FakeTurnModel, Script
from tests.kit.virtual_time import run_virtual

STORY = "Here is a story, it goes on and on for quite a while. It has a second sentence, and then a third one too."


async def _a_turn(script: Script) -> None:
    await script.speak(0.6)
    await script.until(lambda: script.phase == "speaking")


async def _heard_to_its_end(script: Script) -> None:
    await _a_turn(script)
    await script.until(lambda: script.phase == "listening")


def test_a_first_part_that_is_never_recognised_does_not_hold_up_the_second_for_good() -> None:
    class HalfDeaf(FakeRecognizer):
        async def transcribe(self, *args: Any, **options: Any) -> Transcript:
            if not options.get("partial") and not self.calls:
                self.calls.append(0)
                await asyncio.sleep(1e6)
            return Transcript("" if options.get("partial") else "the second part", "en")

    async def conversation() -> None:
        async with Script(asr=HalfDeaf(), turn=FakeTurnModel(0.3)) as script:
            await script.speak(13.0)
            await script.wait(0.5)
            await script.speak(2.0)
            await script.until(lambda: len(script.history) == 2, 30.0)
            assert script.history[0] == ("user", "the second part")

    run_virtual(conversation())


def test_results_that_never_come_are_not_waited_for_when_the_turn_is_done() -> None:
    async def conversation() -> None:
        turn = FakeTurnModel(delay_s=1e6)
        async with Script(asr=FakeRecognizer(["hello there"] * 5), turn=turn) as script:
            for _ in range(5):
                await _heard_to_its_end(script)
                await script.wait(0.5)
            assert not [task for task in script.session._listener.tasks if not task.done()]

    run_virtual(conversation())


def test_what_was_gone_on_with_is_not_said_a_second_time() -> None:
    async def conversation() -> None:
        asr = FakeRecognizer(["tell me a story", "stop", "go on", "go on"], previews=["stop"])
        llm = FakeLanguageModel(replies=[[STORY], ["There is no more of it."]])
        async with Script(asr=asr, llm=llm) as script:
            await _a_turn(script)
            await script.wait(2.0)
            await script.speak(0.6)
            await script.until(lambda: script.phase == "listening")
            await _heard_to_its_end(script)
            assert STORY.endswith(script.history[-1][1])
            await script.wait(0.5)
            await _heard_to_its_end(script)
            assert script.history[-1] == ("assistant", "There is no more of it.")

    run_virtual(conversation())


@pytest.mark.parametrize(
    ("offered", "chosen", "after_s"),
    [
        ("Please choose small, medium or large.", "Large.", 0.15),
        ("Say yes or no.", "No.", 0.15),
        ("Your appointment is Tuesday at nine.", "Tuesday at nine?", 0.35),
        ("The red one or the blue one.", "The blue one.", 0.35),
    ],
)
def test_an_answer_in_the_words_that_were_offered_is_no_echo(offered: str, chosen: str, after_s: float) -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[[offered], ["Fine."]])
        async with Script(asr=FakeRecognizer(["what is there", chosen]), llm=llm) as script:
            await _heard_to_its_end(script)
            await script.wait(after_s)
            await _heard_to_its_end(script)
            assert script.history[-2:] == [("user", chosen), ("assistant", "Fine.")]

    run_virtual(conversation())


@pytest.mark.parametrize(
    ("begun", "rest"), [("My answer is", "Yes."), ("I want to fly to", "Nice."), ("Turn", "right.")]
)
def test_the_rest_of_a_sentence_is_no_backchannel(begun: str, rest: str) -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(first_token_s=1.5)
        async with Script(asr=FakeRecognizer([begun, rest]), llm=llm) as script:
            await script.speak(0.6)
            await script.until(lambda: bool(script.history))
            await script.speak(0.4)
            await script.until(lambda: script.phase == "listening" and len(script.history) == 2)
            assert script.history[0] == ("user", f"{begun} {rest}")

    run_virtual(conversation())


def test_who_cannot_be_understood_over_the_assistant_is_given_the_floor_all_the_same() -> None:
    async def conversation() -> None:
        asr = FakeRecognizer(["tell me a story"])
        async with Script(asr=asr, llm=FakeLanguageModel(replies=[[STORY]])) as script:
            await _a_turn(script)
            await script.wait(0.5)
            asr.error = Overloaded("too many")
            await script.speak(0.8)
            await script.until_event("response.done", timeout_s=1.0)
            notice = await script.until_event("parley.notice", timeout_s=1.0)
            assert notice["code"] == "not_heard"

    run_virtual(conversation())


def test_the_assistant_stays_quiet_while_somebody_goes_on_whose_words_are_not_known() -> None:
    async def conversation() -> None:
        asr = FakeRecognizer(["tell me a story", "what about Tuesday I need to know"], previews=["", "", "", ""])
        async with Script(asr=asr, llm=FakeLanguageModel(replies=[[STORY], ["Fine."]])) as script:
            await _a_turn(script)
            await script.wait(0.5)
            began = len(script.heard)
            await script.speak(1.5)
            loud = [frame for frame in script.heard[began + 2 :] if frame.max() > 200]
            assert not loud

    run_virtual(conversation())


def test_yes_answers_are_you_still_there() -> None:
    async def conversation() -> None:
        asr = FakeRecognizer(["hello there", "Yes."], previews=["Yes."])
        async with Script(asr=asr, assistant={"away_prompt_s": 5.0}) as script:
            await _heard_to_its_end(script)
            await script.until_event("parley.notice")
            await script.wait(0.4)
            await script.speak(0.5)
            await script.until(lambda: ("user", "Yes.") in script.history)

    run_virtual(conversation())


def test_stop_while_it_thinks_stops_it() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(first_token_s=3.0)
        async with Script(asr=FakeRecognizer(["tell me a story", "Stop."]), llm=llm) as script:
            await script.speak(0.6)
            await script.until(lambda: bool(script.history))
            await script.speak(0.5)
            await script.wait(8.0)
            assert script.phase == "listening"
            assert [role for role, _ in script.history] == ["user"]
            assert llm.running == 0

    run_virtual(conversation())


def test_a_cough_after_the_goodbyes_does_not_keep_the_call_open() -> None:
    async def conversation() -> None:
        async with Script(asr=FakeRecognizer(["goodbye", ""])) as script:
            await _heard_to_its_end(script)
            await script.speak(0.2)
            closed = await script.until_event("parley.closed", timeout_s=5.0)
            assert closed["reason"] == "goodbye"

    run_virtual(conversation())


def test_noise_is_no_company() -> None:
    async def conversation() -> None:
        async with Script(asr=FakeRecognizer(["hello there"]), server={"idle_timeout_s": 60.0}) as script:
            await _heard_to_its_end(script)
            for _ in range(8):
                await script.wait(10.0)
                await script.speak(0.2)
            assert [event["reason"] for event in script.told("parley.closed")] == ["idle"]

    run_virtual(conversation())


def test_a_noise_without_end_is_given_up_even_if_it_pauses_at_the_deadline() -> None:
    async def conversation() -> None:
        asr = FakeRecognizer([""] * 50, delay_s=0.5)
        async with Script(asr=asr, turn_={"max_utterance_s": 5.0}, asr_={"partial_ms": 0}) as script:
            speaking = script.loop.create_task(script.speak(5.1))
            await speaking
            await script.wait(0.25)
            await script.speak(30.0)
            assert script.told("conversation.item.input_audio_transcription.failed")

    run_virtual(conversation())
