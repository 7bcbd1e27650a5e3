"""What the API understands and what it refuses, over a scripted model, as OpenAI's own client sees it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator

import httpx
import openai
import pytest

from app.llm import ChatMessage, GenerateRequest, LlmEvent, TextDelta, TokenLogprob, ToolCall
from app.server.openai.api import BODY_LIMIT
from tests.kit.api_server import END, ScriptedModel, client, scripted_api, without_network

HI = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def url(model: ScriptedModel) -> AsyncIterator[str]:
    async with scripted_api(model) as url:
        yield url


@pytest.fixture
async def plain(model: ScriptedModel) -> AsyncIterator[httpx.AsyncClient]:
    async with without_network(model) as plain:
        yield plain


@pytest.fixture
def api(plain: httpx.AsyncClient) -> openai.AsyncOpenAI:
    return client("http://localhost/v1", http=plain)


async def test_every_field_reaches_the_model(api: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    await api.chat.completions.create(
        model="default",
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "text", "text": " up"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "found"},
        ],
        temperature=0.5,
        top_p=0.9,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        seed=-3,
        stop=["a", "b"],
        logit_bias={"7": -100},
        max_completion_tokens=9,
        logprobs=True,
        top_logprobs=3,
        tools=[TOOL],
        user="someone",
        metadata={"a": "b"},
        store=False,
        extra_body={
            "top_k": 5,
            "min_p": 0.05,
            "repetition_penalty": 1.2,
            "ignore_eos": True,
            "priority": "vip",
            "timeout": 12.5,
        },
        extra_headers={"x-session-id": "mine"},
    )
    (asked,) = model.asked
    assert asked.messages == (
        ChatMessage("system", "Be brief."),
        ChatMessage("user", "Look up"),
        ChatMessage("assistant", "", (ToolCall("c1", "look_up", "{}"),)),
        ChatMessage("tool", "found", tool_call_id="c1"),
    )
    sampling = asked.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.5, 0.9, 5, 0.05)
    assert (sampling.presence_penalty, sampling.frequency_penalty, sampling.repetition_penalty) == (0.1, 0.2, 1.2)
    assert (sampling.stop, sampling.max_tokens, sampling.logprobs) == (("a", "b"), 9, 3)
    assert sampling.logit_bias == {7: -100.0}
    assert sampling.ignore_eos
    assert sampling.seed is not None
    assert sampling.seed >= 0
    assert json.loads(asked.tools) == [TOOL]
    assert (asked.priority, asked.deadline_s) == ("vip", 12.5)
    assert asked.session_id is not None
    assert asked.session_id.endswith(":mine")


async def test_what_is_left_out_is_as_openai_has_it(api: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    await api.chat.completions.create(model="default", messages=HI)  # type: ignore[arg-type]
    await api.completions.create(model="default", prompt="Once")
    chat, completion = model.asked
    assert (chat.sampling.temperature, chat.sampling.max_tokens, chat.session_id) == (1.0, None, None)
    assert (completion.prompt, completion.sampling.max_tokens) == ("Once", 16)


@pytest.mark.parametrize(
    ("format", "schema"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, "{}"),
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array"}}}, '{"type":"array"}'),
    ],
)
async def test_response_formats_become_schemas(
    api: openai.AsyncOpenAI, model: ScriptedModel, format: object, schema: str | None
) -> None:
    await api.chat.completions.create(model="default", messages=HI, response_format=format)  # type: ignore[call-overload]
    assert model.asked[0].sampling.json_schema == schema


async def test_tools_that_may_not_be_used_are_not_told(api: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    await api.chat.completions.create(model="default", messages=HI, tools=[TOOL], tool_choice="none")  # type: ignore[list-item,arg-type]
    assert model.asked[0].tools == ""


async def test_each_key_is_a_tenant_with_sessions_of_its_own(plain: httpx.AsyncClient, model: ScriptedModel) -> None:
    for key in ("one", "two", "one"):
        api = client("http://localhost/v1", key, plain)
        await api.chat.completions.create(model="default", messages=HI, extra_body={"session_id": "s"})  # type: ignore[arg-type]
    one, two, again = model.asked
    assert one.tenant == again.tenant != two.tenant
    assert one.session_id == again.session_id != two.session_id
    assert "one" not in one.tenant


async def test_a_stream_and_a_whole_reply_say_the_same(api: openai.AsyncOpenAI) -> None:
    whole = await api.chat.completions.create(model="default", messages=HI)  # type: ignore[arg-type]
    stream = await api.chat.completions.create(
        model="default",
        messages=HI,  # type: ignore[arg-type]
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Hello!"
    assert whole.choices[0].message.content == "Hello!"
    assert whole.choices[0].finish_reason == chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert whole.usage == chunks[-1].usage
    assert whole.usage is not None
    assert whole.usage.total_tokens == 8
    assert whole.usage.prompt_tokens_details is not None
    assert whole.usage.prompt_tokens_details.cached_tokens == 2
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert len({chunk.id for chunk in chunks}) == 1


async def test_a_stream_without_asking_for_usage_has_none(url: str) -> None:
    body = {"model": "default", "messages": HI, "stream": True}
    async with httpx.AsyncClient() as plain:
        answer = await plain.post(f"{url}/chat/completions", json=body)
    assert "usage" not in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"


async def test_log_probabilities_have_the_shape_of_each_endpoint(api: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    async def script(request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        yield TextDelta("é", 1, (TokenLogprob("é", b"\xc3\xa9", -0.5, (("é", b"\xc3\xa9", -0.5), ("e", b"e", -1.5))),))
        yield TextDelta("!", 1, (TokenLogprob("!", b"!", -0.1, (("!", b"!", -0.1),)),))
        yield END

    model.script = script
    chat = await api.chat.completions.create(model="default", messages=HI, logprobs=True, top_logprobs=2)  # type: ignore[arg-type]
    assert chat.choices[0].logprobs is not None
    assert chat.choices[0].logprobs.content is not None
    first = chat.choices[0].logprobs.content[0]
    assert (first.token, first.logprob, first.bytes) == ("é", -0.5, [0xC3, 0xA9])
    assert [entry.token for entry in first.top_logprobs] == ["é", "e"]
    text = await api.completions.create(model="default", prompt="x", logprobs=2)
    assert text.choices[0].logprobs is not None
    assert text.choices[0].logprobs.tokens == ["é", "!"]
    assert text.choices[0].logprobs.text_offset == [0, 1]
    stream = await api.completions.create(model="default", prompt="x", logprobs=2, stream=True)
    offsets = [chunk.choices[0].logprobs.text_offset async for chunk in stream if chunk.choices[0].logprobs]
    assert offsets == [[0], [1]]


async def test_parts_of_characters_are_told_apart_by_their_bytes(api: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    top = (("\ufffd", b"\xf0\x9f", -0.5), ("\ufffd", b"\xe2", -1.5), ("\ufffd", b"\xef\xbf\xbd", -3.0), ("", b"", -4.0))

    async def script(request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        yield TextDelta("", 1, (TokenLogprob("\ufffd", b"\xf0\x9f", -0.5, (*top, ("", b"", -5.0))),))
        yield END

    model.script = script
    chat = await api.chat.completions.create(model="default", messages=HI, logprobs=True, top_logprobs=5)  # type: ignore[arg-type]
    assert chat.choices[0].logprobs is not None
    assert chat.choices[0].logprobs.content is not None
    first = chat.choices[0].logprobs.content[0]
    assert (first.token, first.bytes) == ("\ufffd", [0xF0, 0x9F])
    assert [entry.bytes for entry in first.top_logprobs] == [list(raw) for _, raw, _ in top] + [[]]
    text = await api.completions.create(model="default", prompt="x", logprobs=5)
    assert text.choices[0].logprobs is not None
    assert text.choices[0].logprobs.tokens == ["bytes:\\xf0\\x9f"]
    assert text.choices[0].logprobs.top_logprobs == [
        {"bytes:\\xf0\\x9f": -0.5, "bytes:\\xe2": -1.5, "\ufffd": -3.0, "": -4.0}
    ]


async def test_calls_stream_whole_and_end_the_reply_as_tool_calls(
    api: openai.AsyncOpenAI, model: ScriptedModel
) -> None:
    async def script(request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        yield TextDelta("Let me see.")
        yield ToolCall("a1", "look_up", '{"x": 1}')
        yield ToolCall("a2", "look_up", "{}")
        yield END

    model.script = script
    ask = {"model": "default", "messages": HI, "tools": [TOOL]}
    whole = (await api.chat.completions.create(**ask)).choices[0]  # type: ignore[call-overload]
    assert whole.finish_reason == "tool_calls"
    assert [(call.id, call.function.arguments) for call in whole.message.tool_calls] == [
        ("a1", '{"x": 1}'),
        ("a2", "{}"),
    ]
    stream = await api.chat.completions.create(**ask, stream=True)  # type: ignore[call-overload]
    choices = [chunk.choices[0] async for chunk in stream]
    told = [call for choice in choices for call in choice.delta.tool_calls or []]
    assert [(call.index, call.id, call.function.name) for call in told] == [(0, "a1", "look_up"), (1, "a2", "look_up")]
    assert choices[-1].finish_reason == "tool_calls"
    one = (await api.chat.completions.create(**ask, parallel_tool_calls=False)).choices[0]  # type: ignore[call-overload]
    assert len(one.message.tool_calls) == 1


async def test_models_are_listed_under_the_name_that_is_configured(api: openai.AsyncOpenAI) -> None:
    listed = [entry.id async for entry in api.models.list()]
    assert listed == ["smollm2-135m-instruct"]
    for name in ("default", "smollm2-135m-instruct", "HuggingFaceTB/SmolLM2-135M-Instruct"):
        assert (await api.models.retrieve(name)).id == listed[0]
    with pytest.raises(openai.NotFoundError) as caught:
        await api.models.retrieve("gpt-4o")
    assert caught.value.code == "model_not_found"


async def test_a_path_is_not_told_to_clients(model: ScriptedModel) -> None:
    async with scripted_api(model, llm={"model": "/home/someone/secret/tiny.gguf"}) as url, client(url) as api:
        assert [entry.id async for entry in api.models.list()] == ["tiny"]
        assert (await api.models.retrieve("tiny.gguf")).id == "tiny"


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"model": "gpt-4o"}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "messages[0].content[0].type",
        ),
        ({"n": 2}, "n"),
        ({"temperature": 2.5}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": -0.1}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"logit_bias": {"7": 101}}, "logit_bias"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"functions": []}, "functions"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [TOOL, TOOL]}, "tools[1].function.name"),
        ({"tools": [TOOL], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL], "response_format": {"type": "json_object"}}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"priority": "highest"}, "priority"),
        ({"session_id": "x" * 300}, "session_id"),
        ({"timeout": 0}, "timeout"),
        ({"seed": 1 << 70}, "seed"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"max_completion_tokens": 1 << 63}, "max_completion_tokens"),
        ({"logit_bias": {"9" * 40: 1}}, "logit_bias"),
    ],
    ids=str,
)
async def test_what_is_wrong_is_named(
    plain: httpx.AsyncClient, model: ScriptedModel, wrong: dict[str, object], param: str
) -> None:
    answer = await plain.post("chat/completions", json={"model": "default", "messages": HI} | wrong)
    assert answer.status_code == (404 if param == "model" else 400)
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["param"] is not None
    assert error["param"].startswith(param)
    assert not model.asked


@pytest.mark.parametrize(
    "wrong",
    [
        {"echo": True},
        {"suffix": "x"},
        {"best_of": 2},
        {"n": 2},
        {"prompt": ""},
        {"prompt": ["a", "b"]},
        {"prompt": [[1], [2]]},
        {"prompt": [1, "a"]},
        {"prompt": [7, 1 << 70]},
        {"prompt": [[-1]]},
        {"max_tokens": 1 << 63},
        {"logprobs": 99},
    ],
    ids=str,
)
async def test_completions_refuse_what_they_cannot_do(api: openai.AsyncOpenAI, wrong: dict[str, object]) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await api.completions.create(**({"model": "default", "prompt": "x"} | wrong))  # type: ignore[call-overload]
    assert caught.value.param == next(iter(wrong))


async def test_prompts_come_as_text_as_ids_and_as_a_batch_of_one(api: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    for prompt in ("a", ["a"], [1, 2], [[1, 2]]):
        await api.completions.create(model="default", prompt=prompt)  # type: ignore[call-overload]
    assert [asked.prompt for asked in model.asked] == ["a", "a", (1, 2), (1, 2)]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"model": "\xff"}', b'{"messages":' * 20_000, b'{"model": "default"}']
)
async def test_a_body_that_is_no_request_is_a_400(plain: httpx.AsyncClient, body: bytes) -> None:
    answer = await plain.post("chat/completions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


async def test_statuses_of_the_transport_have_openais_shape_too(url: str) -> None:
    large = json.dumps({"model": "default", "messages": [{"role": "user", "content": "x" * BODY_LIMIT}]})
    json_type = {"content-type": "application/json"}
    async with httpx.AsyncClient(base_url=url) as plain:
        answers = {
            404: await plain.post("/embeddings", json={}),
            405: await plain.get("/chat/completions"),
            413: await plain.post("/chat/completions", content=large, headers=json_type),
            415: await plain.post("/chat/completions", content="{}", headers={"content-type": "text/plain"}),
            403: await plain.post("/chat/completions", json={}, headers={"origin": "https://evil.example"}),
            421: await plain.get("/models", headers={"host": "evil.example"}),
        }
    for status, answer in answers.items():
        assert answer.status_code == status
        error = answer.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"]


async def test_a_wrong_key_is_a_401(model: ScriptedModel) -> None:
    async with scripted_api(model, server={"token": "s3cret"}) as url:
        async with client(url, "guess") as api:
            with pytest.raises(openai.AuthenticationError) as caught:
                await api.models.list()
        assert caught.value.code == "invalid_api_key"
        async with client(url, "s3cret") as api:
            assert (await api.chat.completions.create(model="default", messages=HI)).choices  # type: ignore[arg-type]


async def test_requests_are_counted_by_route_and_status(plain: httpx.AsyncClient, api: openai.AsyncOpenAI) -> None:
    await api.chat.completions.create(model="default", messages=HI)  # type: ignore[arg-type]
    with pytest.raises(openai.NotFoundError):
        await api.completions.create(model="gpt-4o", prompt="x")
    told = (await plain.get("http://localhost/metrics")).text
    assert 'parley_api_requests_total{route="chat",status="200"} 1.0' in told
    assert 'parley_api_requests_total{route="completions",status="404"} 1.0' in told
