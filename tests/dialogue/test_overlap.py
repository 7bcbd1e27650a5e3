"""Speech over the assistant: interruptions obeyed, listeners' noises, coughs and echoes outlived."""

from __future__ import annotations

import numpy as np
import pytest

from app.audio.frames import FRAME_MS
from tests.kit.script import MS_PER_CHAR, FakeLanguageModel, FakeRecognizer, Script
from tests.kit.virtual_time import run_virtual

STORY = "Here is a story, it goes on and on for quite a while. It has a second sentence, and then a third one too."


def _talk(second: str, *, previews: list[str] | None = None, delay_s: float = 0.15) -> Script:
    asr = FakeRecognizer(["tell me a story", second], previews=list(previews or []), delay_s=delay_s)
    return Script(asr=asr, llm=FakeLanguageModel(replies=[[STORY], ["Fine."]]))


async def _until_well_into_the_story(script: Script) -> None:
    await script.speak(0.6)
    await script.until(lambda: script.phase == "speaking")
    await script.wait(1.0)


@pytest.mark.parametrize("words", ["Mm-hm.", "Yeah.", "Right.", "Okay.", "Uh-huh, yeah.", "Go on.", "嗯。", "对。"])
@pytest.mark.parametrize("seconds", [0.3, 0.7])
def test_a_backchannel_is_no_turn_and_no_sample_of_the_reply_is_lost(words: str, seconds: float) -> None:
    async def conversation() -> None:
        async with _talk(words, previews=[words]) as script:
            await _until_well_into_the_story(script)
            await script.speak(seconds)
            await script.until_event("parley.backchannel", timeout_s=2.0)
            await script.until(lambda: script.phase == "listening")
            assert script.history == [("user", "tell me a story"), ("assistant", STORY)]
            assert len(script.llm.requests) == 1  # type: ignore[attr-defined]
            spoken = sum(len(text) for text in script.tts.spoken)
            assert script.session.playout.played_samples == spoken * MS_PER_CHAR * 48, "all of it was played, once"

    run_virtual(conversation())


@pytest.mark.parametrize("words", ["Stop.", "Wait.", "No.", "停。", "等一下。", "What about Tuesday?"])
@pytest.mark.parametrize("seconds", [0.35, 1.2])
def test_stop_and_any_real_words_interrupt(words: str, seconds: float) -> None:
    async def conversation() -> None:
        async with _talk(words, previews=[words, words]) as script:
            await _until_well_into_the_story(script)
            began = script.loop.time()
            await script.speak(seconds)
            done = await script.until_event("response.done", timeout_s=2.0)
            assert done["response"]["status"] == "cancelled"
            told = script.event_times[script.events.index(done)]
            assert told - began <= 0.75, "within the second look at the words, or the pause after them"
            await script.until(lambda: len(script.history) >= 3)
            assert script.history[-1][0] == "user" or script.history[-2] == ("user", words)

    run_virtual(conversation())


def test_the_reply_is_ducked_at_once_and_silent_before_the_words_are_known() -> None:
    async def conversation() -> None:
        async with _talk("stop it please", previews=["stop it"], delay_s=0.4) as script:
            await _until_well_into_the_story(script)
            loud = int(np.abs(script.heard[-1]).max())
            before = len(script.heard)
            await script.speak(0.7)
            levels = [int(np.abs(frame).max()) for frame in script.heard[before:]]
            assert max(levels[2:]) < loud * 0.18, "15 dB down in the next frame but one"
            at = round(420 / FRAME_MS) + 1
            assert max(levels[at:]) == 0, "silent at turn.barge_in_ms"
            assert not script.told("response.done"), "though nobody knows the words yet"

    run_virtual(conversation())


def test_speech_that_goes_on_interrupts_even_if_recognition_hangs() -> None:
    async def conversation() -> None:
        async with _talk("tell me something else entirely", delay_s=30.0) as script:
            script.asr.delay_s = 0.1
            await _until_well_into_the_story(script)
            script.asr.delay_s = 30.0
            began = script.loop.time()
            speaking = script.loop.create_task(script.speak(2.0))
            await script.until_event("response.done", timeout_s=2.0)
            assert script.loop.time() - began < 1.6
            await speaking

    run_virtual(conversation())


def test_a_long_noise_is_outlived_with_one_short_silence_at_most() -> None:
    async def conversation() -> None:
        async with _talk("", previews=[""] * 20) as script:
            await _until_well_into_the_story(script)
            await script.speak(2.5)
            await script.until(lambda: script.phase == "listening")
            assert script.history == [("user", "tell me a story"), ("assistant", STORY)]
            told = [event["type"] for event in script.events]
            assert "conversation.item.input_audio_transcription.failed" in told
            silent = _longest_silence_ms(script)
            assert silent < 700, f"{silent} ms of silence inside the story"

    run_virtual(conversation())


def test_what_the_assistant_says_itself_is_no_turn_and_no_interruption() -> None:
    async def conversation() -> None:
        echo = "it goes on and on for"
        async with _talk(echo, previews=["it goes on", echo, echo]) as script:
            await script.speak(0.6)
            await script.until(lambda: script.phase == "speaking")
            await script.wait(1.4)
            await script.speak(1.0)
            await script.until(lambda: script.phase == "listening")
            assert script.history == [("user", "tell me a story"), ("assistant", STORY)]
            failed = script.told("conversation.item.input_audio_transcription.failed")
            assert [event["error"]["code"] for event in failed] == ["echo"]

    run_virtual(conversation())


def test_the_echo_of_the_last_words_is_no_turn_either() -> None:
    async def conversation() -> None:
        async with _talk("and then a third one too") as script:
            await script.speak(0.6)
            await script.until(lambda: script.phase == "speaking")
            await script.until(lambda: script.phase == "listening")
            await script.wait(0.1)
            await script.speak(0.8)
            await script.wait(2.0)
            assert script.history == [("user", "tell me a story"), ("assistant", STORY)]

    run_virtual(conversation())


def test_yeah_over_the_end_of_a_question_answers_it() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[["Do you like green tea?"], ["Good."]])
        async with Script(asr=FakeRecognizer(["hello there", "Yeah."]), llm=llm) as script:
            await script.speak(0.6)
            await script.until(lambda: script.phase == "speaking")
            await script.wait(0.4)
            await script.speak(0.4)
            await script.until(lambda: len(llm.requests) == 2, 5.0)
            assert ("user", "Yeah.") in script.history

    run_virtual(conversation())


def test_after_an_interruption_the_model_is_shown_what_was_heard_before_the_user_has_finished() -> None:
    async def conversation() -> None:
        async with _talk("no I wanted to ask you something else", previews=["no"]) as script:
            await _until_well_into_the_story(script)
            speaking = script.loop.create_task(script.speak(2.0))
            await script.until_event("response.done", timeout_s=2.0)
            await script.wait(0.05)
            drafts = script.llm.drafts  # type: ignore[attr-defined]
            heard = script.history[1][1]
            assert heard, "some of it was heard"
            assert drafts[-1].messages[-1].content == heard
            assert STORY.startswith(heard)
            await speaking

    run_virtual(conversation())


def _longest_silence_ms(script: Script) -> int:
    voiced = [index for index, frame in enumerate(script.heard) if frame.any()]
    story = [index for index in voiced if index > voiced[0]]
    return max((after - before - 1 for before, after in zip(story, story[1:], strict=False)), default=0) * FRAME_MS


@pytest.mark.parametrize(
    "words", ["Stop.", "Okay, stop talking.", "Be quiet!", "Wait, hold on a second.", "别说了。", "等一下。"]
)
def test_a_bare_stop_is_obeyed_and_not_answered(words: str) -> None:
    async def conversation() -> None:
        async with _talk(words, previews=[words, words]) as script:
            await _until_well_into_the_story(script)
            await script.speak(0.5)
            await script.until(lambda: script.phase == "listening")
            await script.wait(3.0)
            assert script.history[-1] == ("user", words), "it is a turn"
            assert len(script.llm.requests) == 1, "that asks for nothing"  # type: ignore[attr-defined]
            assert script.silent_for(3.0)

    run_virtual(conversation())


def test_stop_with_nothing_to_stop_is_answered() -> None:
    async def conversation() -> None:
        async with Script(asr=FakeRecognizer(["Stop."])) as script:
            await script.speak(0.5)
            await script.until(lambda: script.history == [("user", "Stop."), ("assistant", "All right.")])

    run_virtual(conversation())
