"""A saved turn on recorded stages goes as it went."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.asr import Transcript
from app.config import Settings
from app.dialogue.options import SessionOptions
from app.errors import StageUnavailable
from app.replay.bundle import Bundle
from app.replay.compare import differences
from app.replay.course import Course, saved_course
from app.replay.run import Replayed
from tests.kit.saved import read, replay, save
from tests.kit.script import FakeLanguageModel, FakeRecognizer, Script

STORY = "Once upon a time there was a king, who had three sons, and the youngest of them was the cleverest of all."


def goes_the_same(content: bytes, folder: Path) -> tuple[Bundle, Replayed]:
    saved = read(content, folder)
    replayed, missed = replay(saved, Settings())
    assert replayed.ended
    assert not missed
    assert differences(saved_course(saved), replayed.course, recorded=True) == []
    assert until_done(replayed.course) == until_done(saved_course(saved))
    return saved, replayed


def until_done(course: Course) -> list[str]:
    """The events of the turn; a session's beginning and end, and the tail of a turn, are not."""
    last = len(course.order) - [*reversed(course.order)].index("response.done")
    return [kind for kind in course.order[:last] if kind != "session.created"]


async def two_turns(script: Script) -> None:
    await script.speak(1.2)
    await script.until_event("response.done")
    await script.wait(4.0)
    await script.speak(0.9)
    await script.until_event("response.done", count=2)
    await script.wait(2.0)


def world(
    *texts: str, replies: tuple[str, ...] = ("I am fine, thank you. And you?", "Good to hear.")
) -> dict[str, object]:
    return {"asr": FakeRecognizer(list(texts)), "llm": FakeLanguageModel([[reply] for reply in replies])}


def test_a_turn_goes_the_same_in_events_history_and_sound(tmp_path: Path) -> None:
    saved = save(two_turns, **world("how are you", "very well"))
    for number, content in enumerate(saved.turns):
        bundle, replayed = goes_the_same(content, tmp_path)
        heard = [(item.role, item.text) for item in replayed.history]
        assert heard == saved.history[: 2 * (number + 1)]
        assert np.count_nonzero(replayed.pcm) == np.count_nonzero(bundle.said)
    assert [len(read(content, tmp_path).facts.history) for content in saved.turns] == [0, 2]


def test_a_turn_that_is_interrupted_stops_at_the_same_word(tmp_path: Path) -> None:
    async def talk(script: Script) -> None:
        await script.speak(1.0)
        await script.until_event("parley.heard", count=6)
        await script.speak(1.6)
        await script.until_event("response.done", count=2)

    saved = save(talk, **world("tell me a story", "what time is it now", replies=(STORY, "It is noon.")))
    first, replayed = goes_the_same(saved.turns[0], tmp_path)
    assert saved_course(first).status == "cancelled"
    assert STORY.startswith(replayed.course.reply)
    assert replayed.course.reply
    second, _ = goes_the_same(saved.turns[1], tmp_path)
    assert [item.role for item in second.facts.history] == ["user", "assistant"]
    assert second.facts.history[1].text == replayed.course.reply


def test_a_turn_that_is_gone_on_with_before_its_answer_is_heard_begins_with_its_first_words(tmp_path: Path) -> None:
    async def talk(script: Script) -> None:
        await script.speak(1.0)
        await script.until_event("response.created")
        await script.speak(1.0)
        await script.until_event("response.done", count=2)

    llm = FakeLanguageModel([["Too early, this one."], ["Now to both."]], first_token_s=1.2)
    saved = save(talk, asr=FakeRecognizer(["i would like some tea", "and a cake please"]), llm=llm)
    bundle, _ = goes_the_same(saved.turns[-1], tmp_path)
    assert saved_course(bundle).user == "i would like some tea and a cake please"
    assert not bundle.facts.history


def test_a_typed_turn_goes_the_same(tmp_path: Path) -> None:
    async def talk(script: Script) -> None:
        await script.wait(3.0)
        content = [{"type": "input_text", "text": "what is two and two"}]
        item = {"type": "message", "role": "user", "content": content}
        script.session.receive({"type": "conversation.item.create", "item": item})
        script.session.receive({"type": "response.create"})
        await script.until_event("response.done")

    saved = save(talk, llm=FakeLanguageModel([["It is four."]]))
    bundle, replayed = goes_the_same(saved.turns[0], tmp_path)
    assert replayed.course.user == "what is two and two"
    assert "endpoint" not in replayed.course.spans_ms
    assert bundle.facts.done_s > 1.0


def test_a_turn_ended_by_hand_goes_the_same(tmp_path: Path) -> None:
    async def talk(script: Script) -> None:
        await script.speak(1.0)
        script.session.receive({"type": "input_audio_buffer.commit"})
        await script.until_event("response.done")

    options = SessionOptions(turn_detection="manual", speed=1.5, instructions="Be brief.")
    saved = save(talk, options=options, **world("good morning"))
    bundle, _ = goes_the_same(saved.turns[0], tmp_path)
    assert bundle.facts.options.model_dump() == {
        "instructions": "Be brief.",
        "voice": "",
        "speed": 1.5,
        "language": "",
        "turn_detection": "manual",
        "spoken": True,
    }


def test_a_stage_fails_as_it_failed(tmp_path: Path) -> None:
    async def talk(script: Script) -> None:
        await script.speak(1.0)
        await script.until_event("response.done")
        await script.wait(2.0)

    down = StageUnavailable("the language model is away")
    saved = save(talk, asr=FakeRecognizer(["hello"]), llm=FakeLanguageModel([[down]]))
    _, replayed = goes_the_same(saved.turns[0], tmp_path)
    assert replayed.course.status == "failed"
    assert replayed.course.errors == ("the language model is away",)


def test_a_greeting_can_be_saved_and_goes_the_same(tmp_path: Path) -> None:
    async def talk(script: Script) -> None:
        await script.until_event("response.done")

    saved = save(talk, assistant={"greeting": "Hello, how can I help?"})
    _, replayed = goes_the_same(saved.turns[0], tmp_path)
    assert replayed.course.reply == "Hello, how can I help?"


def test_what_is_otherwise_is_told_in_words(tmp_path: Path) -> None:
    saved = read(save(two_turns, **world("how are you", "very well")).turns[0], tmp_path)
    calls = tuple(
        call.model_copy(update={"answers": ((call.answers[0][0], {"text": "who are you", "language": "en"}),)})
        if call.stage == "asr"
        else call
        for call in saved.calls
    )
    other = replace(saved, calls=calls)
    replayed, _ = replay(other, Settings())
    found = differences(saved_course(saved), replayed.course, recorded=True)
    assert [(found.text, found.matters) for found in found] == [
        ("Other words were heard: now “who are you”, then “how are you”.", True)
    ]


def test_a_slower_stage_is_told_and_is_no_other_way(tmp_path: Path) -> None:
    saved = read(save(two_turns, **world("how are you", "very well")).turns[0], tmp_path)
    calls = tuple(
        call.model_copy(
            update={
                "answers": tuple((at_s + 0.7, answer) for at_s, answer in call.answers),
                "ended_s": call.ended_s + 0.7,
            }
        )
        if call.stage == "llm" and call.ended_s is not None
        else call
        for call in saved.calls
    )
    replayed, _ = replay(replace(saved, calls=calls), Settings())
    found = differences(saved_course(saved), replayed.course, recorded=True)
    assert found
    assert not any(difference.matters for difference in found)
    assert "The first word was 700 ms slower: " in found[0].text


def test_what_was_not_recorded_is_named(tmp_path: Path) -> None:
    saved = read(save(two_turns, **world("how are you", "very well")).turns[0], tmp_path)
    without = replace(
        saved, calls=tuple(call for call in saved.calls if call.stage not in ("llm", "tts")), voice=saved.voice[:0]
    )
    replayed, missed = replay(without, Settings())
    assert replayed.course.status == "failed"
    assert "an answer of the language model" in missed


@pytest.mark.parametrize("confidence", [0.25, 1.0])
def test_an_answer_of_the_recogniser_is_kept_whole(tmp_path: Path, confidence: float) -> None:
    class Recognizer(FakeRecognizer):
        async def transcribe(self, *args: object, **kwargs: object) -> Transcript:
            found = await super().transcribe(*args, **kwargs)  # type: ignore[arg-type]
            return Transcript(found.text, found.language, confidence)

    saved = read(save(two_turns, asr=Recognizer(["one", "two"]), llm=FakeLanguageModel()).turns[0], tmp_path)
    answers = [call.answers[0][1] for call in saved.calls if call.stage == "asr" and call.answers]
    assert {answer["confidence"] for answer in answers} == {confidence}
