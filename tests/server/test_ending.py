"""What clients are told, and what is logged, when the server goes away under running requests."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import AsyncGenerator

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from app.config.settings import Settings
from app.llm import GenerateRequest, LlmEvent, TextDelta
from app.server import bind, create_app, serve
from tests.kit.api_server import END, ScriptedModel

ASK = {"model": "default", "messages": [{"role": "user", "content": "Hi"}], "stream": True}


async def speaks_on(request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
    while True:
        yield TextDelta("word ")
        await asyncio.sleep(0.01)


async def speaks_a_little(request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
    for _ in range(30):
        yield TextDelta("word ")
        await asyncio.sleep(0.01)
    yield END


async def asked_while_it_ends(model: ScriptedModel, signals: int) -> tuple[str, float]:
    """What a client gets of a stream when so many signals come while it runs, and how long the end takes."""
    sock = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}/v1/chat/completions"
    ready = asyncio.Event()
    serving = asyncio.create_task(serve(create_app(Settings(), llm=model), sock, on_ready=ready.set))
    await asyncio.wait_for(ready.wait(), 5)
    async with httpx.AsyncClient(timeout=10) as client, client.stream("POST", url, json=ASK) as answer:
        pieces = answer.aiter_text()
        told = await anext(pieces)
        began = time.monotonic()
        for _ in range(signals):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.05)
        async for piece in pieces:
            told += piece
        await asyncio.wait_for(serving, 5)
    return told, time.monotonic() - began


@pytest.mark.parametrize("signals", [1, 2, 3])
async def test_a_stream_that_runs_is_told_and_nothing_is_logged(signals: int, caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel(speaks_on)
    with caplog.at_level(logging.WARNING):
        told, took_s = await asked_while_it_ends(model, signals)
    assert told.count('"code":"shutting_down"') == 1
    assert told.endswith("\n\n")
    assert model.open == 0
    assert took_s < 5
    assert [record.getMessage() for record in caplog.records] == []


async def test_a_stream_that_is_nearly_done_may_finish() -> None:
    told, _ = await asked_while_it_ends(ScriptedModel(speaks_a_little), signals=1)
    assert told.endswith("data: [DONE]\n\n")
    assert "shutting_down" not in told


async def test_a_request_that_was_not_answered_yet_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    asked = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for answer in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{answer}.complete"})
            return
        asked.set()
        await asyncio.Event().wait()

    sock = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}/"
    ready = asyncio.Event()
    serving = asyncio.create_task(serve(app, sock, on_ready=ready.set))
    await asyncio.wait_for(ready.wait(), 5)
    with caplog.at_level(logging.WARNING):
        async with httpx.AsyncClient() as client:
            asking = asyncio.create_task(client.get(url))
            await asyncio.wait_for(asked.wait(), 5)
            os.kill(os.getpid(), signal.SIGTERM)
            answer = await asyncio.wait_for(asking, 5)
        await asyncio.wait_for(serving, 5)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")
    assert answer.headers["retry-after"] == "5"
    assert [record.getMessage() for record in caplog.records] == []
