"""A reply is written before the turn is over, and nobody notices but by its speed."""

from __future__ import annotations

from app.audio.vad import SpeechLikely
from app.errors import StageUnavailable
from tests.kit.script import FakeLanguageModel, FakeRecognizer, FakeTurnModel, Script
from tests.kit.virtual_time import run_virtual

ASKED = "what is the capital of France"
UNSURE = FakeTurnModel(completeness_value=0.3)


def test_it_is_not_heard_or_told_before_the_turn_is_over_and_then_at_once() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[["It is Paris."]])
        async with Script(asr=FakeRecognizer([ASKED]), llm=llm, turn=UNSURE) as script:
            await script.speak(0.6)
            await script.until(lambda: len(llm.requests) == 1, 1.0)
            await script.wait(0.2)
            assert script.session.playout.queued_samples > 0, "it is ready"
            assert not script.told("response.created")
            assert not any(frame.any() for frame in script.heard)
            completed = "conversation.item.input_audio_transcription.completed"
            await script.until_event(completed)
            await script.until(lambda: script.phase == "speaking", 0.05)
            await script.until(lambda: script.phase == "listening")
            assert len(llm.requests) == 1, "no second request"
            assert script.history == [("user", ASKED), ("assistant", "It is Paris.")]
            types = [event["type"] for event in script.events]
            deltas = [event["delta"] for event in script.told("response.output_audio_transcript.delta")]
            assert "".join(deltas) == "It is Paris."
            assert types.index(completed) < types.index("response.created") < types.index("parley.heard")
            (turn,) = script.told("parley.turn")
            assert turn["early"]["ms"] > 100
            assert turn["early"]["wasted_tokens"] == 0

    run_virtual(conversation())


def test_it_is_dropped_without_a_trace_when_the_user_goes_on() -> None:
    async def conversation() -> None:
        whole = f"{ASKED} and of Spain"
        llm = FakeLanguageModel(replies=[["It is Paris."], ["Paris and Madrid."]])
        async with Script(asr=FakeRecognizer([ASKED, whole]), llm=llm, turn=UNSURE) as script:
            await script.speak(0.6)
            await script.until(lambda: len(llm.requests) == 1, 1.0)
            await script.wait(0.2)
            await script.speak(0.6)
            await script.until(lambda: len(llm.requests) == 2 and llm.running == 0, 3.0)
            await script.until(lambda: script.phase == "listening")
            assert script.history == [("user", whole), ("assistant", "Paris and Madrid.")]
            assert [event["response"]["status"] for event in script.told("response.done")] == ["completed"]
            (turn,) = script.told("parley.turn")
            assert turn["early"]["wasted_tokens"] == 3
            asked = [message.content for message in llm.requests[1].messages if message.role == "user"]
            assert asked == [whole], "the prompt knows nothing of the first attempt"

    run_virtual(conversation())


def test_words_that_ask_for_more_are_not_answered_early() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel()
        async with Script(asr=FakeRecognizer(["I would like to know about the"]), llm=llm) as script:
            await script.speak(0.6)
            await script.wait(0.8)
            assert not llm.requests, "though the turn model says it is complete"
            await script.until(lambda: len(llm.requests) == 1, 2.0)

    run_virtual(conversation())


def test_one_that_fails_is_begun_again_when_the_turn_is_over() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[[StageUnavailable("gone")], ["It is Paris."]])
        async with Script(asr=FakeRecognizer([ASKED]), llm=llm, turn=UNSURE) as script:
            await script.speak(0.6)
            await script.until(lambda: len(script.history) == 2, 10.0)
            assert script.history[-1] == ("assistant", "It is Paris.")
            assert not script.told("error"), "nobody was waiting for the first"
            assert len(llm.requests) == 2

    run_virtual(conversation())


def test_early_replies_can_be_switched_off() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel()
        async with Script(asr=FakeRecognizer([ASKED]), llm=llm, turn=UNSURE, turn_={"early_replies": False}) as script:
            await script.speak(0.6)
            await script.until_event("conversation.item.input_audio_transcription.completed")
            assert not llm.drafts
            await script.until(lambda: script.phase == "listening" and len(script.history) == 2)
            (turn,) = script.told("parley.turn")
            assert turn["early"] == {"ms": 0.0, "wasted_tokens": 0}

    run_virtual(conversation())


def test_words_that_two_looks_agree_on_are_told_read_ahead_and_given_to_the_recogniser() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel()
        asr = FakeRecognizer(
            ["tell me about the river please"], previews=["tell me", "tell me about the", "tell me about the river"]
        )
        async with Script(asr=asr, llm=llm) as script:
            await script.speak(2.4)
            deltas = [event["delta"] for event in script.told("conversation.item.input_audio_transcription.delta")]
            confirmed = "".join(deltas)
            assert confirmed.startswith("tell me about")
            assert llm.drafts[-1].messages[-1].content == confirmed.strip()
            assert llm.drafts[-1].messages[-1].role == "user"
            await script.until(lambda: len(llm.requests) == 1)
            assert asr.known[-1] == confirmed
            assert llm.requests[0].messages[-1].content == "tell me about the river please"

    run_virtual(conversation())


def test_who_goes_on_before_the_answer_is_heard_has_said_one_thing() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(first_token_s=0.8, replies=[["Paris."], ["Paris and Madrid."]])
        async with Script(asr=FakeRecognizer([ASKED, "and of Spain"]), llm=llm) as script:
            completed = "conversation.item.input_audio_transcription.completed"
            await script.speak(0.6)
            first = await script.until_event(completed)
            await script.speak(0.6)
            second = await script.until_event(completed, count=2)
            assert (second["item_id"], second["transcript"]) == (first["item_id"], f"{ASKED} and of Spain")
            await script.until(lambda: script.phase == "listening" and len(script.history) == 2)
            assert script.history == [("user", f"{ASKED} and of Spain"), ("assistant", "Paris and Madrid.")]

    run_virtual(conversation())


def test_a_noise_before_the_answer_is_heard_leaves_the_turn_as_it_was() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(first_token_s=0.8, replies=[["Paris."]])
        async with Script(asr=FakeRecognizer([ASKED, ""]), llm=llm) as script:
            completed = "conversation.item.input_audio_transcription.completed"
            await script.speak(0.6)
            await script.until_event(completed)
            await script.speak(0.3)
            await script.until(lambda: script.phase == "listening" and len(script.history) == 2)
            assert script.history == [("user", ASKED), ("assistant", "Paris.")]
            assert {event["transcript"] for event in script.told(completed)} == {ASKED}
            assert len(llm.requests) == 1

    run_virtual(conversation())


def test_an_answer_waits_for_what_may_be_the_user_going_on() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[["Paris."]])
        async with Script(asr=FakeRecognizer([ASKED]), llm=llm) as script:
            await script.speak(0.6)
            await script.wait(0.19)
            script.session._post(SpeechLikely(0))
            await script.wait(0.15)
            assert not script.told("response.created")
            await script.until(lambda: script.phase == "speaking", 0.2)

    run_virtual(conversation())
