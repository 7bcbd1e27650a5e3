"""What happens when things go wrong, over a scripted model that fails on purpose: errors, clients that leave, overload."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import httpx
import openai
import pytest

from app.errors import (
    ContextOverflow,
    InvalidRequest,
    Overloaded,
    ParleyError,
    StageError,
    StageTimeout,
    StageUnavailable,
)
from app.llm import Finished, GenerateRequest, LlmEvent, TextDelta, Usage
from app.server.openai import reply
from app.server.openai.parse import Job, chat_job
from tests.kit.api_server import END, ScriptedModel, client, scripted_api, without_network

HI = [{"role": "user", "content": "Hi"}]


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


def fails_with(error: Exception, after: int = 0) -> object:
    async def script(request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        for _ in range(after):
            yield TextDelta("word ")
        raise error

    return script


async def test_further_keys_open_the_api_and_nothing_else(model: ScriptedModel) -> None:
    async with scripted_api(model, server={"token": "s3cret", "api_keys": ["k1", "k2"]}) as url:
        for key in ("k1", "k2", "s3cret"):
            async with client(url, key) as api:
                await api.chat.completions.create(model="default", messages=HI)  # type: ignore[arg-type]
        async with client(url, "k3") as api:
            with pytest.raises(openai.AuthenticationError):
                await api.models.list()
        async with httpx.AsyncClient(headers={"authorization": "Bearer k1"}) as plain:
            assert (await plain.get(url.removesuffix("/v1") + "/metrics")).status_code == 401
    assert len({asked.tenant for asked in model.asked}) == 3
    async with scripted_api(model, server={"api_keys": ["k1"]}) as url, client(url, "any") as api:
        with pytest.raises(openai.AuthenticationError):
            await api.models.list()


FAILURES = [
    (InvalidRequest("the template refuses"), openai.BadRequestError, 400, "invalid_request"),
    (ContextOverflow("too long"), openai.BadRequestError, 400, "context_length_exceeded"),
    (Overloaded("busy", retry_after_s=3.2), openai.RateLimitError, 429, "overloaded"),
    (StageUnavailable("restarting"), openai.InternalServerError, 503, "stage_unavailable"),
    (StageTimeout("too slow"), openai.InternalServerError, 504, "timeout"),
    (StageError("the model failed"), openai.InternalServerError, 500, "stage_failed"),
    (ParleyError("x"), openai.InternalServerError, 500, "internal_error"),
    (RuntimeError("secret path /home/x"), openai.InternalServerError, 500, "internal_error"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "kind", "status", "code"), FAILURES, ids=lambda value: getattr(value, "__name__", None)
)
async def test_failures_raise_the_clients_own_exceptions(
    api: openai.AsyncOpenAI,
    model: ScriptedModel,
    error: Exception,
    kind: type[openai.APIStatusError],
    status: int,
    code: str,
    stream: bool,
) -> None:
    model.script = fails_with(error)  # type: ignore[assignment]
    with pytest.raises(kind) as caught:
        await api.chat.completions.create(model="default", messages=HI, stream=stream)  # type: ignore[call-overload]
    assert caught.value.status_code == status
    assert caught.value.code == code
    assert "secret" not in caught.value.message
    retry_after = caught.value.response.headers.get("retry-after")
    assert retry_after == {429: "4", 503: "2"}.get(status)
    assert model.open == 0


async def test_a_worker_that_is_being_restarted_is_a_503_at_once(api: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    model.ready, model.ready_in_s = False, 7.2
    with pytest.raises(openai.InternalServerError) as caught:
        await api.chat.completions.create(model="default", messages=HI)  # type: ignore[arg-type]
    assert (caught.value.status_code, caught.value.code) == (503, "stage_unavailable")
    assert caught.value.response.headers["retry-after"] == "8"
    assert not model.asked


async def test_a_prompt_that_is_too_long_is_blamed_on_its_field(api: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    model.script = fails_with(ContextOverflow("too long"))  # type: ignore[assignment]
    with pytest.raises(openai.BadRequestError) as chat:
        await api.chat.completions.create(model="default", messages=HI)  # type: ignore[arg-type]
    with pytest.raises(openai.BadRequestError) as completion:
        await api.completions.create(model="default", prompt="x")
    assert (chat.value.param, completion.value.param) == ("messages", "prompt")


@pytest.mark.parametrize(("param", "told"), [("tools", "tools"), ("json_schema", "response_format"), ("", None)])
async def test_what_the_worker_finds_wrong_is_blamed_on_its_field(
    api: openai.AsyncOpenAI, model: ScriptedModel, param: str, told: str | None
) -> None:
    model.script = fails_with(InvalidRequest("no", param=param))  # type: ignore[assignment]
    with pytest.raises(openai.BadRequestError) as caught:
        await api.chat.completions.create(model="default", messages=HI)  # type: ignore[arg-type]
    assert (caught.value.param, caught.value.code) == (told, "invalid_request")


async def test_more_messages_than_the_context_has_tokens_are_refused_unread(
    api: openai.AsyncOpenAI, model: ScriptedModel
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await api.chat.completions.create(model="default", messages=HI * (model.context_tokens + 1))  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")
    assert "llm.context_tokens" in str(caught.value)
    assert not model.asked
    await api.chat.completions.create(model="default", messages=HI * model.context_tokens)  # type: ignore[arg-type]
    assert len(model.asked[0].messages) == model.context_tokens


@pytest.mark.parametrize(("chars", "elsewhere"), [(10, False), (100_000, True)])
async def test_a_large_body_is_parsed_away_from_the_event_loop(
    api: openai.AsyncOpenAI, monkeypatch: pytest.MonkeyPatch, chars: int, elsewhere: bool
) -> None:
    threads: list[threading.Thread] = []

    def parse(*arguments: Any) -> Job:
        threads.append(threading.current_thread())
        return chat_job(*arguments)

    monkeypatch.setattr("app.server.openai.api.chat_job", parse)
    await api.chat.completions.create(model="default", messages=[{"role": "user", "content": "x" * chars}])
    assert [thread is not threading.current_thread() for thread in threads] == [elsewhere]


async def test_a_failure_after_the_stream_began_is_its_last_event(
    api: openai.AsyncOpenAI, model: ScriptedModel
) -> None:
    model.script = fails_with(StageUnavailable("the worker went down"), after=2)  # type: ignore[assignment]
    stream = await api.chat.completions.create(model="default", messages=HI, stream=True)  # type: ignore[arg-type]
    got: list[str] = []

    async def read() -> None:
        async for chunk in stream:
            got.append(chunk.choices[0].delta.content or "")

    with pytest.raises(openai.APIError, match="the worker went down"):
        await read()
    assert "".join(got) == "word word "


async def test_a_reply_whose_session_moved_on_says_so(api: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    async def script(request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        yield Finished("cancelled", Usage(0, 0, 0))

    model.script = script
    with pytest.raises(openai.BadRequestError) as caught:
        await api.chat.completions.create(model="default", messages=HI)  # type: ignore[arg-type]
    assert caught.value.code == "request_superseded"


async def test_more_requests_than_may_wait_are_told_to_come_back(model: ScriptedModel) -> None:
    gate = asyncio.Event()

    async def script(request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        await gate.wait()
        yield END

    model.script = script
    async with scripted_api(model, llm={"max_running": 2, "max_waiting": 1}) as url, client(url) as api:
        waiting = [
            asyncio.create_task(api.chat.completions.create(model="default", messages=HI))  # type: ignore[arg-type]
            for _ in range(3)
        ]
        async with asyncio.timeout(5):
            while model.open < 3:  # noqa: ASYNC110 - the fake counts, it does not signal
                await asyncio.sleep(0.01)
        with pytest.raises(openai.RateLimitError):
            await api.chat.completions.create(model="default", messages=HI)  # type: ignore[arg-type]
        gate.set()
        await asyncio.gather(*waiting)
        assert (await api.chat.completions.create(model="default", messages=HI)).choices  # type: ignore[arg-type]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("words", [0, 2])
async def test_a_client_that_leaves_ends_its_reply(url: str, model: ScriptedModel, stream: bool, words: int) -> None:
    began = asyncio.Event()

    async def script(request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        for _ in range(words):
            yield TextDelta("word ")
        began.set()
        await asyncio.Event().wait()
        yield END

    model.script = script
    body = {"model": "default", "messages": HI, "stream": stream}
    async with httpx.AsyncClient() as plain:
        asking = asyncio.create_task(plain.post(f"{url}/chat/completions", json=body))
        await asyncio.wait_for(began.wait(), 5)
        asking.cancel()
        await asyncio.wait([asking])
    await model.until_idle()
    async with httpx.AsyncClient() as plain:
        told = (await plain.get(url.removesuffix("/v1") + "/metrics")).text
    assert 'parley_api_requests_total{route="chat",status="499"} 1.0' in told
    assert "parley_api_requests_open 0.0" in told


async def test_a_client_that_does_not_read_stops_the_reading_of_the_model_and_is_dropped(
    url: str, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply, "SEND_TIMEOUT_S", 2.0)
    yielded = 0

    async def script(request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        nonlocal yielded
        while True:
            yielded += 1
            yield TextDelta("x" * 1000)
            await asyncio.sleep(0)

    model.script = script
    host, port = url.removeprefix("http://").removesuffix("/v1").split(":")
    body = json.dumps({"model": "default", "messages": HI, "stream": True}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    _, writer = await asyncio.open_connection(host, int(port), limit=1024)
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    before = -1
    async with asyncio.timeout(10):
        while yielded != before or not yielded:
            before = yielded
            await asyncio.sleep(0.3)
    assert yielded < 20_000, "what the two sockets and the server's own buffer hold, and no more"
    await model.until_idle(10.0)
    writer.close()


async def test_a_server_that_shuts_down_tells_its_clients(model: ScriptedModel) -> None:
    async def script(request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        if request.sampling.max_tokens == 1:
            yield TextDelta("word ")
        await asyncio.Event().wait()
        yield END

    model.script = script
    async with httpx.AsyncClient() as plain:
        async with scripted_api(model) as url:
            asks = [
                {"model": "default", "messages": HI, "stream": stream, "max_tokens": n}
                for stream, n in ((True, 1), (False, 2))
            ]
            asking = [asyncio.create_task(plain.post(f"{url}/chat/completions", json=ask)) for ask in asks]
            async with asyncio.timeout(5):
                while model.open < 2:  # noqa: ASYNC110 - the fake counts, it does not signal
                    await asyncio.sleep(0.01)
        streamed, whole = await asyncio.gather(*asking)
    assert "shutting_down" in streamed.text
    assert (whole.status_code, whole.json()["error"]["code"]) == (503, "shutting_down")
    assert whole.headers["retry-after"]
