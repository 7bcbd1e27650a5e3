from __future__ import annotations

import asyncio

from tests.kit.script import FakeLanguageModel, FakeRecognizer, Script
from tests.kit.virtual_time import run_virtual


def test_eight_talkers_with_a_secret_each_never_see_anothers_in_ten_turns() -> None:
    llm = FakeLanguageModel()

    async def talker(number: int) -> None:
        words = [f"secret{number} turn {turn}" for turn in range(10)]
        async with Script(asr=FakeRecognizer(list(words)), llm=llm) as script:
            await script.wait(number * 0.13)
            for turn in range(10):
                await script.speak(0.4)
                await script.until_event("response.done", count=turn + 1)
            assert [text for role, text in script.history if role == "user"] == words

    async def all_at_once() -> None:
        await asyncio.gather(*(talker(number) for number in range(8)))

    run_virtual(all_at_once())
    assert len(llm.requests) == 80
    for request in llm.requests:
        text = " ".join(message.content for message in request.messages)
        assert len({word for word in text.split() if word.startswith("secret")}) == 1
