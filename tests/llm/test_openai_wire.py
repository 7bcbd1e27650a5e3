"""Everything that the API understands survives the way through another OpenAI-compatible server: here, another Parley."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from app.config.settings import LlmSettings
from app.errors import StageTimeout
from app.llm import ChatMessage, Finished, GenerateRequest, LlmEvent, Sampling, TextDelta, TokenLogprob, ToolCall, Usage
from app.llm.openai import OpenAILanguageModel
from tests.kit.api_server import ScriptedModel, scripted_api

TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]
END = Finished("stop", Usage(7, 3, 2))


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def through(model: ScriptedModel) -> AsyncIterator[OpenAILanguageModel]:
    async with scripted_api(model) as url:
        settings = LlmSettings(backend="openai", model="default", base_url=url)  # type: ignore[call-arg]
        proxy = OpenAILanguageModel(settings)
        yield proxy
        await proxy.close()


async def test_a_request_arrives_as_it_was_sent(through: OpenAILanguageModel, model: ScriptedModel) -> None:
    sampling = Sampling(
        max_tokens=9,
        temperature=0.5,
        top_p=0.9,
        top_k=4,
        min_p=0.1,
        repetition_penalty=1.2,
        presence_penalty=0.3,
        frequency_penalty=0.4,
        logit_bias={5: -1.0},
        seed=11,
        stop=("x",),
        ignore_eos=True,
        logprobs=2,
    )
    messages = (
        ChatMessage("user", "Hi"),
        ChatMessage("assistant", "", (ToolCall("c", "look_up", "{}"),)),
        ChatMessage("tool", "found", tool_call_id="c"),
    )
    sent = GenerateRequest(messages, sampling, tenant="someone", tools=json.dumps(TOOLS))
    _ = [event async for event in through.generate(sent)]
    (asked,) = model.asked
    assert (asked.messages, asked.sampling) == (messages, sampling)
    assert json.loads(asked.tools) == TOOLS


@pytest.mark.parametrize("schema", ["{}", '{"type":"array"}'])
async def test_a_schema_arrives(through: OpenAILanguageModel, model: ScriptedModel, schema: str) -> None:
    _ = [
        event
        async for event in through.generate(GenerateRequest((ChatMessage("user", "x"),), Sampling(json_schema=schema)))
    ]
    assert model.asked[0].sampling.json_schema == schema


@pytest.mark.parametrize("prompt", ["Once", (1, 2, 3)])
async def test_a_plain_prompt_arrives(
    through: OpenAILanguageModel, model: ScriptedModel, prompt: str | tuple[int, ...]
) -> None:
    async def script(request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        yield TextDelta("upon", 1, (TokenLogprob("upon", b"upon", -0.5, (("upon", b"upon", -0.5),)),))
        yield END

    model.script = script
    events = [event async for event in through.generate(GenerateRequest(prompt=prompt, sampling=Sampling(logprobs=1)))]
    assert model.asked[0].prompt == prompt
    assert events[0] == TextDelta("upon", 1, (TokenLogprob("upon", b"upon", -0.5, (("upon", b"upon", -0.5),)),))


async def test_calls_and_log_probabilities_come_back(through: OpenAILanguageModel, model: ScriptedModel) -> None:
    word = TextDelta(
        "Well", 1, (TokenLogprob("Well", b"Well", -0.25, (("Well", b"Well", -0.25), ("\ufffd", b"\xe2", -2.0))),)
    )
    calls = [ToolCall("a", "look_up", '{"x": 1}'), ToolCall("b", "look_up", "{}")]

    async def script(request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        yield word
        for call in calls:
            yield call
        yield END

    model.script = script
    request = GenerateRequest((ChatMessage("user", "Hi"),), Sampling(logprobs=2), tools=json.dumps(TOOLS))
    events = [event async for event in through.generate(request)]
    assert events[:-1] == [word, *calls]
    assert isinstance(events[-1], Finished)
    assert (events[-1].reason, events[-1].usage) == (END.reason, END.usage)


async def test_a_conversation_sends_only_what_every_server_knows(
    through: OpenAILanguageModel, model: ScriptedModel
) -> None:
    sampling = Sampling(repetition_penalty=1.1, top_k=40)
    _ = [event async for event in through.generate(GenerateRequest((ChatMessage("user", "x"),), sampling))]
    assert (model.asked[0].sampling.repetition_penalty, model.asked[0].sampling.top_k) == (1.0, 0)


async def test_a_request_with_a_deadline_ends_by_it_and_not_before(model: ScriptedModel) -> None:
    async def script(request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        yield TextDelta("a")
        await asyncio.sleep(0.3)
        yield TextDelta("b")
        await asyncio.sleep(60)
        yield END

    model.script = script
    async with scripted_api(model) as url:
        settings = LlmSettings(backend="openai", model="default", base_url=url, stall_timeout_s=0.1)  # type: ignore[call-arg]
        proxy = OpenAILanguageModel(settings)
        got = []

        async def read() -> None:
            async for event in proxy.generate(GenerateRequest((ChatMessage("user", "x"),), deadline_s=1.0)):
                got.append(event)

        with pytest.raises(StageTimeout):
            await read()
        assert got == [TextDelta("a"), TextDelta("b")]
        await proxy.close()
        await model.until_idle()
