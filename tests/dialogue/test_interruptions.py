"""Barge-in: what was heard stays, nothing else does, and the assistant is quiet."""

from __future__ import annotations

import numpy as np
import pytest

from app.audio.frames import OUTPUT_RATE_HZ
from tests.kit.script import FakeLanguageModel, FakeRecognizer, Script
from tests.kit.virtual_time import run_virtual

STORY = (
    "Here is a story, it goes on and on for quite a while. It has a second sentence, and then a third one too, "
    "and here it ends."
)
"""Five seconds at MS_PER_CHAR."""


_QUIETEST = 125
"""The voice's 1000, ducked by 18 dB. What is softer belongs to the 5 ms in which a cut fades out, and counts for nothing."""


def _words_whose_sound_left(script: Script) -> str:
    """The independent account: words of the first reply whose end lies within the samples the transport took."""
    taken = sum(int(np.count_nonzero(frame >= _QUIETEST)) for frame in script.heard)
    heard = 0
    for words in script.reply_words:
        for text_end, sample_end in words:
            if sample_end <= taken:
                heard = max(heard, text_end)
    return STORY[:heard].strip()


async def _interrupt_after(played_ms: int) -> tuple[str, str, str]:
    llm = FakeLanguageModel(replies=[[STORY], ["Fine."]])
    async with Script(
        asr=FakeRecognizer(["tell me a story", "what else"]), llm=llm, turn_={"barge_in_ms": 100}
    ) as script:
        await script.speak(0.6)
        await script.until(lambda: script.session.playout.played_samples >= played_ms * OUTPUT_RATE_HZ // 1000)
        await script.speak(0.5)
        script.freeze_heard()
        await script.until(lambda: len(llm.requests) == 2)
        expected = _words_whose_sound_left(script)
        history = script.history
        assert history[0] == ("user", "tell me a story")
        assert history[-1] == ("user", "what else")
        in_history = history[1][1] if len(history) == 3 else ""
        prompt = [message for message in llm.requests[1].messages if message.role == "assistant"]
        return in_history, expected, prompt[0].content if prompt else ""


@pytest.mark.parametrize("second", range(5))
def test_interrupted_at_every_20_ms_history_and_next_prompt_hold_exactly_the_words_that_were_heard(second: int) -> None:
    for played_ms in range(1000 * second, min(1000 * (second + 1), 4600), 20):
        in_history, expected, in_prompt = run_virtual(_interrupt_after(max(20, played_ms)))
        assert in_history == expected, f"interrupted after {played_ms} ms"
        assert in_prompt == expected, f"interrupted after {played_ms} ms"


def test_an_interrupted_reply_stops_within_200_ms_with_no_token_or_frame_after() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[[" ".join(["word"] * 400)]], token_s=0.05)
        async with Script(asr=FakeRecognizer(["tell me", "no I meant the other one"]), llm=llm) as script:
            await script.speak(0.5)
            await script.until(lambda: script.phase == "speaking")
            await script.wait(1.0)
            speaking = script.loop.create_task(script.speak(3.0))
            await script.until_event("response.done")
            sent = llm.tokens_sent
            assert llm.running == 0
            await script.wait(0.2)
            assert script.silent_for(0.15)
            await script.wait(1.0)
            assert llm.tokens_sent == sent
            assert script.silent_for(1.0)
            await speaking

    run_virtual(conversation())


def test_a_reply_that_nobody_heard_leaves_no_item() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(replies=[[STORY], ["Fine."]])
        async with Script(asr=FakeRecognizer(["first", "second"]), llm=llm) as script:
            script.playing = False
            await script.speak(0.5)
            await script.until_event("response.created")
            await script.wait(0.3)
            await script.speak(0.6)
            await script.until(lambda: len(llm.requests) == 2)
            assert script.history == [("user", "first second")]
            assert [message.content for message in llm.requests[1].messages if message.role == "user"] == [
                "first second"
            ]

    run_virtual(conversation())


def test_five_interruptions_in_a_row_leave_one_item_per_reply() -> None:
    async def conversation() -> None:
        texts = [f"question {number}" for number in range(6)]
        llm = FakeLanguageModel(replies=[[STORY] for _ in range(5)] + [["Done."]])
        async with Script(asr=FakeRecognizer(texts), llm=llm) as script:
            for number in range(6):
                await script.speak(0.6)
                await script.until(lambda count=number + 1: len(llm.requests) == count)  # type: ignore[misc]
                await script.until(lambda: script.phase == "speaking")
                await script.wait(0.8)
            roles = [role for role, _ in script.history]
            assert roles[:11] == ["user", "assistant"] * 5 + ["user"]
            ids = [item.id for item in script.session.state.history]
            assert len(ids) == len(set(ids))

    run_virtual(conversation())


def test_a_noise_over_the_assistant_lets_it_speak_on_from_where_it_was() -> None:
    async def conversation() -> None:
        async with Script(asr=FakeRecognizer(["tell me", ""]), llm=FakeLanguageModel(replies=[[STORY]])) as script:
            await script.speak(0.5)
            await script.until(lambda: script.phase == "speaking")
            await script.wait(0.5)
            await script.speak(0.2)
            await script.until_event("conversation.item.input_audio_transcription.failed", timeout_s=2.0)
            await script.until(lambda: script.phase == "listening")
            assert script.history == [("user", "tell me"), ("assistant", STORY)]

    run_virtual(conversation())


def test_the_assistant_is_ducked_while_it_is_undecided() -> None:
    async def conversation() -> None:
        async with Script(asr=FakeRecognizer(["tell me", ""]), llm=FakeLanguageModel(replies=[[STORY]])) as script:
            await script.speak(0.5)
            await script.until(lambda: script.phase == "speaking")
            await script.wait(0.5)
            loud = int(np.abs(script.heard[-1]).max())
            await script.speak(0.2)
            assert int(np.abs(script.heard[-1]).max()) < loud * 0.2
            await script.until_event("conversation.item.input_audio_transcription.failed", timeout_s=2.0)
            await script.wait(0.1)
            assert int(np.abs(script.heard[-1]).max()) == loud

    run_virtual(conversation())
