"""Push to talk: a turn is what is said while the button is down, whatever its pauses."""

from __future__ import annotations

from app.dialogue.options import SessionOptions
from tests.kit.script import FakeLanguageModel, FakeRecognizer, Script
from tests.kit.virtual_time import run_virtual

MANUAL = SessionOptions(turn_detection="manual")
COMMIT = {"type": "input_audio_buffer.commit"}


def test_a_pause_does_not_end_the_turn_and_letting_go_does() -> None:
    async def conversation() -> None:
        asr = FakeRecognizer(["I was wondering", "I was wondering what time it is"])
        async with Script(asr=asr, llm=FakeLanguageModel(replies=[["Noon."]]), options=MANUAL) as script:
            await script.speak(0.6)
            await script.wait(8.0)
            assert script.phase == "hearing"
            await script.speak(0.6)
            script.session.receive(COMMIT)
            assert await script.until(lambda: script.phase == "speaking") < 1.0
            assert script.history == [("user", "I was wondering what time it is")]
            assert [event["item_id"] for event in script.told("input_audio_buffer.committed")] == ["item_1"]

    run_virtual(conversation())


def test_letting_go_after_a_pause_answers_at_once() -> None:
    async def conversation() -> None:
        asr = FakeRecognizer(["what time is it"])
        async with Script(asr=asr, llm=FakeLanguageModel(replies=[["Noon."]]), options=MANUAL) as script:
            await script.speak(0.6)
            await script.wait(1.0)
            script.session.receive(COMMIT)
            assert script.history == [("user", "what time is it")]

    run_virtual(conversation())


def test_words_that_are_still_on_their_way_when_the_button_is_let_go_of_count() -> None:
    async def conversation() -> None:
        asr = FakeRecognizer(["yes"])
        async with Script(asr=asr, llm=FakeLanguageModel(replies=[["Good."]]), options=MANUAL) as script:
            script.session.receive(COMMIT)
            await script.wait(0.1)
            await script.speak(0.2)
            await script.until(lambda: script.history == [("user", "yes")], 2.0)

    run_virtual(conversation())


def test_a_press_in_silence_is_told_as_nothing() -> None:
    async def conversation() -> None:
        async with Script(options=MANUAL) as script:
            script.session.receive(COMMIT)
            await script.until_event("input_audio_buffer.committed", timeout_s=1.0)
            assert script.told("input_audio_buffer.committed")[0]["item_id"] is None
            assert script.phase == "listening"

    run_virtual(conversation())


def test_a_noise_that_goes_on_does_not_hold_the_turn_open() -> None:
    async def conversation() -> None:
        asr = FakeRecognizer(["what time is it"])
        async with Script(asr=asr, llm=FakeLanguageModel(replies=[["Noon."]]), options=MANUAL) as script:
            script._say_until = script.loop.time() + 60.0
            await script.wait(2.0)
            script.session.receive(COMMIT)
            assert await script.until(lambda: len(script.history) == 1) < 1.0

    run_virtual(conversation())


def test_a_mm_hm_that_a_button_was_pressed_for_is_a_turn_and_stops_the_reply() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[["This goes on for a while and for longer still."], ["Fine."]])
        async with Script(asr=FakeRecognizer(["go", "mm-hm"]), llm=llm, options=MANUAL) as script:
            await script.speak(0.6)
            script.session.receive(COMMIT)
            await script.until(lambda: script.phase == "speaking")
            await script.wait(0.8)
            await script.speak(0.4)
            script.session.receive(COMMIT)
            await script.until(lambda: len(script.history) == 4)
            assert script.history[2] == ("user", "mm-hm")
            assert not script.told("parley.backchannel")

    run_virtual(conversation())


def test_the_manner_can_be_changed_in_mid_call() -> None:
    async def conversation() -> None:
        asr = FakeRecognizer(["one", "two"])
        async with Script(asr=asr, llm=FakeLanguageModel(replies=[["Yes."], ["Yes."]]), options=MANUAL) as script:
            await script.speak(0.6)
            await script.wait(3.0)
            assert script.phase == "hearing"
            detection = {"type": "semantic_vad"}
            update = {"audio": {"input": {"turn_detection": detection}}}
            script.session.receive({"type": "session.update", "session": update})
            assert script.told("session.updated")[0]["session"]["turn_detection"] == detection
            await script.until(lambda: len(script.history) == 2)
            await script.until(lambda: script.phase == "listening")
            script.session.receive(
                {"type": "session.update", "session": {"audio": {"input": {"turn_detection": None}}}}
            )
            await script.speak(0.6)
            await script.wait(3.0)
            assert script.phase == "hearing"

    run_virtual(conversation())


def test_who_presses_again_before_their_last_word_has_come_goes_on_with_the_turn() -> None:
    async def conversation() -> None:
        asr = FakeRecognizer(["what time is it in Lima"])
        async with Script(asr=asr, llm=FakeLanguageModel(replies=[["Noon."]]), options=MANUAL) as script:
            await script.speak(0.6)
            script.session.receive(COMMIT)
            await script.wait(0.06)
            assert script.phase == "hearing"
            script.session.receive({"type": "response.cancel"})
            await script.speak(1.5)
            assert script.phase == "hearing"
            script.session.receive(COMMIT)
            await script.until(lambda: len(script.history) == 2)
            assert script.history[0] == ("user", "what time is it in Lima")
            assert asr.calls[-1] >= 2.2 * 16_000, "all of it was heard"
            assert len(script.told("input_audio_buffer.committed")) == 1

    run_virtual(conversation())
