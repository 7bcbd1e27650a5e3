"""Answers that are shown and not spoken."""

from __future__ import annotations

from app.dialogue.options import SessionOptions
from app.errors import StageUnavailable
from tests.kit.script import FakeLanguageModel, FakeRecognizer, Script
from tests.kit.virtual_time import run_virtual

TYPED = {
    "type": "conversation.item.create",
    "item": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What is two and two?"}]},
}
SILENTLY = {"type": "response.create", "response": {"output_modalities": ["text"]}}


def test_one_typed_question_may_be_answered_silently_and_the_next_aloud() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[["It is four."], ["Still four."]])
        async with Script(llm=llm) as script:
            script.session.receive(TYPED)
            script.session.receive(SILENTLY)
            await script.until(lambda: len(script.history) == 2)
            assert script.history[1] == ("assistant", "It is four.")
            deltas = [event["delta"] for event in script.told("response.output_text.delta")]
            assert "".join(deltas) == "It is four."
            assert script.told("response.output_text.done")[0]["text"] == "It is four."
            assert script.told("response.done")[0]["response"]["status"] == "completed"
            assert script.told("parley.turn")[0]["timings_ms"].keys() == {"llm_first_token"}
            assert not any(frame.any() for frame in script.heard)
            assert not script.told("response.output_audio_transcript.delta")
            script.session.receive(TYPED)
            script.session.receive({"type": "response.create"})
            await script.until(lambda: len(script.history) == 4)
            assert any(frame.any() for frame in script.heard)

    run_virtual(conversation())


def test_a_session_of_text_answers_speech_silently_and_says_no_line_of_its_own() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[["Noon."], [StageUnavailable("gone")]])
        asr = FakeRecognizer(["what time is it", "are you sure"])
        async with Script(asr=asr, llm=llm, options=SessionOptions(spoken=False)) as script:
            await script.speak(0.6)
            await script.until(lambda: len(script.history) == 2)
            await script.speak(0.6)
            await script.until(lambda: bool(script.told("parley.notice")))
            assert script.phase == "listening"
            assert script.told("response.done")[-1]["response"]["status"] == "failed"
            await script.wait(2.0)
            assert not any(frame.any() for frame in script.heard)

    run_virtual(conversation())


def test_stopping_a_silent_answer_keeps_what_was_shown() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[["It is ", 1.0, "four."]])
        async with Script(llm=llm) as script:
            script.session.receive(TYPED)
            script.session.receive(SILENTLY)
            await script.until(lambda: bool(script.told("response.output_text.delta")))
            await script.wait(0.2)
            script.session.receive({"type": "response.cancel"})
            assert script.history == [("user", "What is two and two?"), ("assistant", "It is")]
            assert script.told("response.done")[0]["response"]["status"] == "cancelled"

    run_virtual(conversation())


def test_only_so_much_is_written_before_an_answer_is_asked_for() -> None:
    async def conversation() -> None:
        async with Script() as script:
            for _ in range(100):
                script.session.receive(TYPED)
            assert len(script.session.state.typed) == 64
            assert len(script.told("error")) == 36
            assert "response.create" in script.told("error")[0]["error"]["message"]
            script.session.receive({"type": "response.create"})
            script.session.receive(TYPED)
            assert len(script.session.state.typed) == 1

    run_virtual(conversation())
