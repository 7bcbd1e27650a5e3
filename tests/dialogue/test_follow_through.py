"""Greetings, fillers, a gentle question, goodbyes, and going on where one was interrupted."""

from __future__ import annotations

import pytest

from tests.kit.script import FakeLanguageModel, FakeRecognizer, Script
from tests.kit.virtual_time import run_virtual

STORY = "Here is a story, it goes on and on for quite a while. It has a second sentence, and then a third one too."


def _notices(script: Script) -> list[str]:
    return [notice["code"] for notice in script.told("parley.notice")]


@pytest.mark.parametrize("words", ["Goodbye.", "Okay thanks, bye!", "再见。"])
def test_a_goodbye_is_answered_and_the_call_ends(words: str) -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel()
        async with Script(asr=FakeRecognizer([words]), llm=llm) as script:
            await script.speak(0.6)
            closed = await script.until_event("parley.closed", timeout_s=10.0)
            assert closed["reason"] == "goodbye"
            assert script.history == [("user", words), ("assistant", "Goodbye!")]
            assert not llm.requests, "small models ramble"

    run_virtual(conversation())


def test_who_speaks_again_over_the_goodbye_is_not_hung_up_on() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[["Goodbye, it was very nice to talk to you today."], ["Of course."]])
        asr = FakeRecognizer(["goodbye", "wait I have another question"])
        async with Script(asr=asr, llm=llm, assistant={"farewell": ""}) as script:
            await script.speak(0.6)
            await script.until(lambda: script.phase == "speaking")
            await script.wait(0.5)
            await script.speak(1.0)
            await script.until(lambda: script.phase == "listening" and len(llm.requests) == 2)
            await script.wait(2.0)
            assert not script.told("parley.closed")

    run_virtual(conversation())


def test_hanging_up_can_be_switched_off() -> None:
    async def conversation() -> None:
        async with Script(asr=FakeRecognizer(["goodbye"]), assistant={"hang_up_on_goodbye": False}) as script:
            await script.speak(0.6)
            await script.until(lambda: len(script.history) == 2)
            await script.wait(2.0)
            assert not script.told("parley.closed")

    run_virtual(conversation())


def test_a_slow_answer_is_announced_once_and_still_heard_whole() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[["Here it is."]], first_token_s=6.0)
        async with Script(asr=FakeRecognizer(["hello there"]), llm=llm) as script:
            await script.speak(0.6)
            await script.until(lambda: any(frame.any() for frame in script.heard), 4.0)
            assert _notices(script) == ["one_moment"]
            await script.until(lambda: script.phase == "listening" and len(script.history) == 2)
            assert _notices(script) == ["one_moment"]
            assert script.history[-1] == ("assistant", "Here it is.")
            assert script.session.playout.played_samples == len("Here it is.") * 40 * 48

    run_virtual(conversation())


def test_a_quick_answer_is_not_announced() -> None:
    async def conversation() -> None:
        async with Script(asr=FakeRecognizer(["hello there"])) as script:
            await script.speak(0.6)
            await script.until(lambda: len(script.history) == 2)
            assert _notices(script) == []

    run_virtual(conversation())


def test_who_stays_away_is_asked_once_and_then_the_call_idles_out() -> None:
    async def conversation() -> None:
        async with Script(asr=FakeRecognizer(["hello there"]), server={"idle_timeout_s": 100.0}) as script:
            await script.speak(0.6)
            await script.until(lambda: len(script.history) == 2)
            await script.wait(90.0)
            assert _notices(script) == ["still_there"]
            closed = await script.until_event("parley.closed", timeout_s=60.0)
            assert closed["reason"] == "idle"
            assert _notices(script) == ["still_there"]

    run_virtual(conversation())


def test_nobody_is_asked_before_anything_was_said() -> None:
    async def conversation() -> None:
        async with Script() as script:
            await script.wait(60.0)
            assert _notices(script) == []

    run_virtual(conversation())


@pytest.mark.parametrize("between", [[], ["Okay."]])
def test_go_on_continues_from_the_clause_that_was_cut(between: list[str]) -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[[STORY], *[[text] for text in between]])
        interruption = ["no"] if between else ["stop"]  # "no" is answered, "stop" is only obeyed
        asr = FakeRecognizer(["tell me a story", *interruption, "please go on"], previews=[])
        async with Script(asr=asr, llm=llm) as script:
            await script.speak(0.6)
            await script.until(lambda: script.phase == "speaking")
            await script.wait(2.5)
            await script.speak(0.3)
            await script.until(lambda: script.phase == "listening" and len(script.history) == 3 + len(between))
            asked = len(llm.requests)
            heard = script.history[1][1]
            await script.speak(0.6)
            await script.until(lambda: script.phase == "listening" and script.history[-2] == ("user", "please go on"))
            rest = script.history[-1][1]
            assert STORY.endswith(rest)
            assert len(heard) + 1 + len(rest) >= len(STORY), "nothing between was left out"
            assert len(llm.requests) == asked, "what was written already is not written again"

    run_virtual(conversation())


def test_go_on_with_nothing_to_go_on_with_is_a_question_like_any_other() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[["I am done."], ["With what?"]])
        async with Script(asr=FakeRecognizer(["hello there", "go on"]), llm=llm) as script:
            for count in (2, 4):
                await script.speak(0.6)
                await script.until(lambda count=count: len(script.history) == count)  # type: ignore[misc]
            assert len(llm.requests) == 2

    run_virtual(conversation())
