"""The running summary as it is asked for and taken: bounded, at low priority, and never a reason to fail."""

from __future__ import annotations

import pytest

from app.errors import StageError, StageTimeout, StageUnavailable
from app.llm import ChatMessage
from app.llm.memory import TokenGauge
from app.llm.summary import Notes, write_summary
from tests.kit.script import FakeLanguageModel
from tests.kit.virtual_time import run_virtual

TALK = (
    ChatMessage("user", "My name is Ann."),
    ChatMessage("assistant", "Nice to meet you, Ann."),
    ChatMessage("user", "I live in Oslo."),
)


def written(llm: FakeLanguageModel, notes: Notes, *, room: int = 1000) -> str:
    return run_virtual(write_summary(llm, notes, TokenGauge(), room=room, summary_tokens=50, deadline_s=20.0))


def test_it_is_asked_for_at_low_priority_without_a_session_and_with_a_bound() -> None:
    llm = FakeLanguageModel(summaries=[["Ann lives\n in Oslo."]])
    assert written(llm, Notes("She likes tea.", TALK)) == "Ann lives in Oslo."
    (asked,) = llm.requests
    assert asked.priority == "low"
    assert asked.session_id is None
    assert asked.deadline_s == 20.0
    assert asked.sampling.max_tokens == 50
    prompt = asked.messages[-1].content
    assert (
        prompt.index("She likes tea.") < prompt.index("User: My name is Ann.") < prompt.index("User: I live in Oslo.")
    )
    assert "Assistant: Nice to meet you, Ann." in prompt


def test_its_own_prompt_fits_too_and_the_newest_is_what_stays() -> None:
    many = tuple(ChatMessage("user", f"Message number {number} says a few words.") for number in range(200))
    llm = FakeLanguageModel()
    written(llm, Notes("", many), room=400)
    gauge = TokenGauge()
    assert sum(gauge.tokens(message.content) for message in llm.requests[0].messages) <= 400
    assert "number 199 " in llm.requests[0].messages[-1].content


def test_one_message_longer_than_the_room_loses_its_beginning() -> None:
    llm = FakeLanguageModel()
    written(llm, Notes("", (ChatMessage("user", "word " * 5000 + "the end"),)), room=400)
    prompt = llm.requests[0].messages[-1].content
    assert "the end" in prompt
    assert len(prompt) < 2000


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ([""], StageError),
        (["  \n "], StageError),
        ([StageUnavailable("gone")], StageUnavailable),
        ([1e4], StageTimeout),
    ],
)
def test_an_empty_failed_or_late_summary_is_an_error(
    reply: list[str | float | Exception], error: type[Exception]
) -> None:
    llm = FakeLanguageModel(summaries=[reply])
    with pytest.raises(error):
        written(llm, Notes("", TALK))
    assert llm.running == 0


def test_a_sentence_that_the_limit_broke_off_is_not_kept() -> None:
    llm = FakeLanguageModel(summaries=[["Ann lives in Oslo. She has a dog and"]], finish_reason="length")
    assert written(llm, Notes("", TALK)) == "Ann lives in Oslo."
    llm = FakeLanguageModel(summaries=[["Ann lives in Oslo and she has a dog and"]], finish_reason="length")
    assert written(llm, Notes("", TALK)) == "Ann lives in Oslo and she has a dog and"
