"""Whatever a stage does, the user hears something and can go on; whatever they say is answered once."""

from __future__ import annotations

import pytest

from app.errors import Overloaded, StageUnavailable
from tests.kit.script import FakeLanguageModel, FakeRecognizer, FakeTurnModel, FakeVoice, Script
from tests.kit.virtual_time import run_virtual

REPLIES = {
    "a stall after three tokens": ["One two three", 1e5],
    "an error after three tokens": ["One two three", StageUnavailable("gone")],
    "an error before any token": [StageUnavailable("gone")],
    "an empty reply": [""],
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES.keys())
def test_a_language_model_that_fails_leads_to_speech_within_four_seconds_and_back(reply: list[object]) -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[list(reply), ["All is well."]])  # type: ignore[list-item]
        async with Script(asr=FakeRecognizer(["hi there", "and now"]), llm=llm) as script:
            await script.speak(0.5)
            assert await script.until(lambda: script.phase == "speaking", 4.0) <= 4.0
            await script.until_event("parley.notice", timeout_s=6.0)
            await script.until(lambda: script.phase == "listening", 15.0)
            await script.speak(0.5)
            await script.until(lambda: script.phase == "listening" and len(llm.requests) == 2, 15.0)
            assert script.history[-1] == ("assistant", "All is well.")
            assert llm.running == 0

    run_virtual(conversation())


def test_an_overloaded_language_model_is_told_as_such() -> None:
    async def conversation() -> None:
        async with Script(asr=FakeRecognizer(["hi"]), llm=FakeLanguageModel(replies=[[Overloaded("full")]])) as script:
            await script.speak(0.5)
            notice = await script.until_event("parley.notice", timeout_s=4.0)
            assert notice["code"] == "busy"

    run_virtual(conversation())


@pytest.mark.parametrize("voice", [FakeVoice(error=StageUnavailable("no voice")), FakeVoice(stall=True)])
def test_a_voice_that_fails_or_stalls_leads_to_a_prepared_line(voice: FakeVoice) -> None:
    async def conversation() -> None:
        async with Script(asr=FakeRecognizer(["hi"]), tts=voice) as script:
            await script.speak(0.5)
            await script.until(lambda: "no_voice" in [notice["code"] for notice in script.told("parley.notice")], 8.0)
            await script.until(lambda: script.phase == "speaking", 1.0)
            await script.until(lambda: script.phase == "listening", 15.0)
            assert [role for role, _ in script.history] == ["user"]

    run_virtual(conversation())


@pytest.mark.parametrize(
    "asr", [FakeRecognizer(error=StageUnavailable("deaf")), FakeRecognizer(["late"], delay_s=60.0)]
)
def test_a_recogniser_that_fails_or_hangs_leads_to_an_apology(asr: FakeRecognizer) -> None:
    async def conversation() -> None:
        async with Script(asr=asr) as script:
            await script.speak(0.5)
            notice = await script.until_event("parley.notice", timeout_s=12.0)
            assert notice["code"] == "not_heard"
            await script.until(lambda: script.phase == "listening", 15.0)

    run_virtual(conversation())


@pytest.mark.parametrize("delay_s", [0.2, 0.6, 1.0, 2.0, 3.0])
def test_a_short_word_with_a_late_transcript_is_exactly_one_turn(delay_s: float) -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel()
        async with Script(asr=FakeRecognizer(["tak"], delay_s=delay_s), llm=llm) as script:
            await script.speak(0.3)
            await script.until_event("response.done", timeout_s=delay_s + 6.0)
            assert script.history == [("user", "tak"), ("assistant", "All right.")]
            assert len(llm.requests) == 1

    run_virtual(conversation())


def test_noise_while_thinking_only_delays_the_reply() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(first_token_s=1.0)
        async with Script(asr=FakeRecognizer(["question", ""]), llm=llm) as script:
            await script.speak(0.5)
            await script.until(lambda: len(llm.requests) == 1)
            await script.speak(0.2)
            assert await script.until(lambda: script.phase == "speaking", 2.0) < 2.0
            await script.until_event("response.done")
            assert len(llm.requests) == 1
            assert script.history == [("user", "question"), ("assistant", "All right.")]

    run_virtual(conversation())


def test_hello_while_waiting_does_not_start_the_answer_anew() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(first_token_s=2.5)
        async with Script(asr=FakeRecognizer(["a hard question", "Hello?"]), llm=llm) as script:
            await script.speak(0.5)
            await script.until(lambda: len(llm.requests) == 1)
            await script.speak(0.3)
            await script.until_event("response.done")
            assert len(llm.requests) == 1
            assert script.history == [("user", "a hard question"), ("assistant", "All right.")]

    run_virtual(conversation())


def test_more_words_while_thinking_become_part_of_the_question() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(first_token_s=1.0)
        async with Script(asr=FakeRecognizer(["what is the weather", "in Paris"]), llm=llm) as script:
            await script.speak(0.5)
            await script.until(lambda: len(llm.requests) == 1)
            await script.speak(0.5)
            await script.until_event("response.done", count=2)
            assert llm.requests[-1].messages[-1].content == "what is the weather in Paris"
            assert llm.running == 0
            assert [role for role, _ in script.history] == ["user", "assistant"], "they are one turn"

    run_virtual(conversation())


def test_a_pause_in_the_middle_of_a_sentence_does_not_end_the_turn() -> None:
    async def conversation() -> None:
        turn = FakeTurnModel(completeness_value=0.1)
        asr = FakeRecognizer(["I would like", "I would like a coffee"])
        async with Script(asr=asr, turn=turn) as script:
            await script.speak(0.6)
            await script.wait(1.0)
            turn.completeness_value = 0.9
            await script.speak(0.6)
            await script.until_event("response.done")
            assert script.history[0] == ("user", "I would like a coffee")
            assert asr.calls[1] > asr.calls[0], "the second try heard the whole utterance"

    run_virtual(conversation())


def test_an_incomplete_turn_is_answered_after_the_longest_wait() -> None:
    async def conversation() -> None:
        script = Script(asr=FakeRecognizer(["well, I"]), turn=FakeTurnModel(completeness_value=0.0))
        async with script:
            await script.speak(0.5)
            waited = await script.until(lambda: bool(script.told("response.created")), 5.0)
            assert 1.8 <= waited <= 2.2

    run_virtual(conversation())


def test_a_monologue_of_90_s_with_pauses_is_one_turn_with_every_word() -> None:
    async def conversation() -> None:
        turn = FakeTurnModel(completeness_value=0.0)
        parts = iter(range(100))
        asr = FakeRecognizer(hear=lambda pcm: f"part{next(parts)}")
        llm = FakeLanguageModel()
        async with Script(asr=asr, turn=turn, llm=llm) as script:
            for _ in range(9):
                await script.speak(9.5)
                await script.wait(0.5)
            await script.until_event("response.done", timeout_s=40.0)
            assert len(llm.requests) == 1
            assert [role for role, _ in script.history] == ["user", "assistant"]
            assert max(asr.calls) < 28 * 16000, "no piece is longer than Whisper can see"
            assert sum(asr.calls) >= 85 * 16000

    run_virtual(conversation())


def test_a_transport_that_takes_no_sound_ends_the_reply_not_the_session() -> None:
    async def conversation() -> None:
        async with Script(asr=FakeRecognizer(["hi"])) as script:
            script.playing = False
            await script.speak(0.5)
            await script.until_event("error", timeout_s=22.0)
            assert script.told("error")[0]["error"]["code"] == "playback_stalled"
            assert script.phase == "listening"

    run_virtual(conversation())


@pytest.mark.parametrize("at_s", [0.1, 0.55, 0.75, 0.85, 1.0, 1.5, 2.5])
def test_hanging_up_at_any_moment_frees_the_session_and_stops_all_work(at_s: float) -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[["a long answer " * 40]], token_s=0.05)
        async with Script(asr=FakeRecognizer(["hi"]), llm=llm) as script:
            speaking = script.loop.create_task(script.speak(0.5))
            await script.wait(at_s)
            await script.session.close("client left")
            assert llm.running == 0
            assert llm.ended_sessions == ["sess_test"]
            assert script.events[-1] == {**script.events[-1], "type": "parley.closed", "reason": "client left"}
            await speaking

    run_virtual(conversation())


def test_a_greeting_is_spoken_first_and_counts_as_said() -> None:
    async def conversation() -> None:
        async with Script(assistant={"greeting": "Hello, how can I help?"}) as script:
            await script.until_event("response.done")
            assert script.history == [("assistant", "Hello, how can I help?")]

    run_virtual(conversation())


def test_an_idle_call_ends_but_thinking_is_not_idleness() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(first_token_s=12.0)
        overrides = {"server": {"idle_timeout_s": 10.0}, "llm_": {"first_token_timeout_s": 30.0}}
        async with Script(asr=FakeRecognizer(["hi"]), llm=llm, **overrides) as script:
            await script.speak(0.5)
            await script.until_event("response.done", timeout_s=30.0)
            closed = await script.until_event("parley.closed", timeout_s=15.0)
            assert closed["reason"] == "idle"

    run_virtual(conversation())
