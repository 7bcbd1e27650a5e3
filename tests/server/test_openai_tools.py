"""Tool calls from the chat template to the client, and prompts that are too long for any template, over a real worker."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from app.config.settings import LlmSettings, RuntimeSettings
from app.llm.local import LocalLanguageModel
from tests.kit.api_server import client, scripted_api
from tests.kit.caller_model import ANSWER, ARGUMENTS, QUESTION, TOOLS, save_caller


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_caller(tmp_path_factory.mktemp("caller"))


@pytest.fixture
async def api(caller: Path) -> AsyncIterator[openai.AsyncOpenAI]:
    settings = LlmSettings(model=str(caller), kv_cache_mb=16, context_tokens=1024)  # type: ignore[call-arg]
    model = LocalLanguageModel(settings, RuntimeSettings(llm_threads=1), caller)  # type: ignore[call-arg]
    await model.load()
    try:
        async with scripted_api(model) as url, client(url) as api:
            yield api
    finally:
        await model.close()


async def test_a_tool_is_called_and_its_result_is_used(api: openai.AsyncOpenAI) -> None:
    async def ask(messages: list[Any], **more: Any) -> Any:
        options = {"model": "default", "temperature": 0, "tools": TOOLS, "extra_body": {"session_id": "s"}}
        return await api.chat.completions.create(messages=messages, **options, **more)

    choice = (await ask([QUESTION])).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "One moment.\n"
    (call,) = choice.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("weather", ARGUMENTS)

    streamed = [chunk.choices[0] async for chunk in await ask([QUESTION], stream=True)]
    text = "".join(part.delta.content or "" for part in streamed)
    (told,) = [part.delta.tool_calls[0] for part in streamed if part.delta.tool_calls]
    assert (text, told.index, told.function.name) == ("One moment.\n", 0, "weather")
    assert json.loads(told.function.arguments) == ARGUMENTS
    assert streamed[-1].finish_reason == "tool_calls"

    result = {"role": "tool", "tool_call_id": call.id, "content": "21"}
    answer = await ask([QUESTION, choice.message.model_dump(exclude_none=True), result])
    assert answer.choices[0].message.content == ANSWER
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.prompt_tokens_details.cached_tokens > len(QUESTION["content"]), "the old turns kept their ids"

    plain = await ask([QUESTION], tool_choice="none")
    assert plain.usage.prompt_tokens < answer.usage.prompt_tokens // 2, "no tools, no word of them"

    # A prompt of 200 kB: nothing of it may hold up the loop that all conversations share.
    longest = asyncio.create_task(_longest_callback_s())
    await asyncio.sleep(0)
    for word in ("x" * 200_000, "héllo 한국어 " * 12_000):
        with pytest.raises(openai.BadRequestError) as caught:
            await ask([{"role": "user", "content": word}])
        assert caught.value.code == "context_length_exceeded"
    longest.cancel()
    assert await longest < 0.05


async def _longest_callback_s() -> float:
    """The most processor time that this thread spent between two looks, until cancelled: others' work does not count."""
    longest = 0.0
    before = time.thread_time()
    try:
        while True:
            await asyncio.sleep(0.0005)
            now = time.thread_time()
            longest, before = max(longest, now - before), now
    except asyncio.CancelledError:
        return longest
