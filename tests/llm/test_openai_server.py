"""The OpenAI-compatible backend against a real HTTP server that misbehaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from app.config.settings import LlmSettings
from app.errors import ContextOverflow, ModelError, Overloaded, StageError, StageTimeout, StageUnavailable
from app.llm.base import ChatMessage, Finished, GenerateRequest, TextDelta
from app.llm.openai import OpenAILanguageModel

ASK = GenerateRequest((ChatMessage("user", "Hi"),))


@dataclass
class Server:
    """Plays one behaviour per request, the last one for ever."""

    plays: list[str] = field(default_factory=lambda: ["ok"])
    bodies: list[dict[str, Any]] = field(default_factory=list)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""
    lists_models: bool = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            if head.startswith("GET"):
                if not self.lists_models or not head.startswith("GET /v1/models "):
                    _answer(writer, 404, "not found")
                    return
                _answer(writer, 200, json.dumps({"data": [{"id": "good"}]}))
                return
            length = next(int(line.split(":")[1]) for line in head.splitlines() if "content-length" in line.lower())
            self.bodies.append(json.loads(await reader.readexactly(length)))
            play = self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
            await self._play(play, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up.set()
        finally:
            writer.close()

    async def _play(self, play: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if play.isdigit():
            _answer(writer, int(play), "no", "Retry-After: 0.05\r\n")
            return
        if play == "busy":
            _answer(writer, 429, "slow down", "Retry-After: 30\r\n")
            return
        if play == "too long":
            _answer(writer, 400, '{"error": {"code": "context_length_exceeded", "message": "too many"}}')
            return
        if play != "silent":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            _chunk(writer, {"choices": [{"delta": {"role": "assistant", "content": ""}}]})
            _chunk(writer, {"choices": [{"delta": {"content": "Hel"}}]})
            await writer.drain()
        if play in ("silent", "stall"):
            await reader.read()
            self.hung_up.set()
            return
        if play == "half":
            return
        _chunk(writer, {"choices": [{"delta": {"content": "lo"}, "finish_reason": "stop"}]})
        _chunk(writer, {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}})
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()


def _answer(writer: asyncio.StreamWriter, status: int, body: str, headers: str = "") -> None:
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{headers}\r\n"
    writer.write((head + body).encode())


def _chunk(writer: asyncio.StreamWriter, content: dict[str, Any]) -> None:
    writer.write(f"data: {json.dumps(content)}\n\n".encode())


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    yield server
    listening.close()


@pytest.fixture
async def model(server: Server) -> AsyncIterator[OpenAILanguageModel]:
    settings = LlmSettings(
        backend="openai", model="good", base_url=server.url, first_token_timeout_s=0.4, stall_timeout_s=0.2, retries=2
    )
    model = OpenAILanguageModel(settings)
    yield model
    await model.close()


async def read(model: OpenAILanguageModel) -> tuple[str, Finished]:
    text, end = "", None
    async for event in model.generate(ASK):
        if isinstance(event, TextDelta):
            text += event.text
        else:
            end = event
    assert end is not None
    return text, end


async def test_a_reply_streams_and_ends_with_its_usage(server: Server, model: OpenAILanguageModel) -> None:
    await model.load()
    text, end = await read(model)
    assert text == "Hello"
    assert end.reason == "stop"
    assert (end.usage.prompt_tokens, end.usage.completion_tokens) == (9, 2)
    assert server.bodies[0]["messages"] == [{"role": "user", "content": "Hi"}]


async def test_failures_before_the_first_token_are_tried_again(server: Server, model: OpenAILanguageModel) -> None:
    server.plays = ["500", "429", "ok"]
    assert (await read(model))[0] == "Hello"
    assert len(server.bodies) == 3


async def test_a_server_that_keeps_failing_is_named(server: Server, model: OpenAILanguageModel) -> None:
    server.plays = ["500"]
    with pytest.raises(StageUnavailable, match=server.url):
        await read(model)
    assert len(server.bodies) == 3


async def test_an_overloaded_server_says_when_to_come_back(server: Server, model: OpenAILanguageModel) -> None:
    server.plays = ["busy"]
    with pytest.raises(Overloaded) as caught:
        await read(model)
    assert caught.value.retry_after_s == 30.0


@pytest.mark.parametrize("play", ["silent", "stall"])
async def test_a_stall_ends_in_time_and_hangs_up(server: Server, model: OpenAILanguageModel, play: str) -> None:
    server.plays = [play]
    with pytest.raises(StageTimeout, match=server.url):
        await read(model)
    async with asyncio.timeout(1):
        await server.hung_up.wait()


async def test_a_reply_that_breaks_off_is_told_and_not_repeated(server: Server, model: OpenAILanguageModel) -> None:
    server.plays = ["half", "ok"]
    with pytest.raises(StageUnavailable, match="broke off"):
        await read(model)
    assert len(server.bodies) == 1


async def test_a_conversation_too_long_is_its_own_error(server: Server, model: OpenAILanguageModel) -> None:
    server.plays = ["too long"]
    with pytest.raises(ContextOverflow, match=server.url):
        await read(model)


async def test_closing_the_reply_hangs_up(server: Server, model: OpenAILanguageModel) -> None:
    server.plays = ["stall"]
    stream = model.generate(ASK)
    await anext(stream)
    await stream.aclose()
    async with asyncio.timeout(1):
        await server.hung_up.wait()


async def test_loading_names_a_dead_server_and_an_unknown_model(server: Server) -> None:
    unknown = OpenAILanguageModel(LlmSettings(backend="openai", model="other", base_url=server.url))
    with pytest.raises(ModelError, match="good"):
        await unknown.load()
    await unknown.close()
    dead = OpenAILanguageModel(LlmSettings(backend="openai", model="m", base_url="http://127.0.0.1:9/v1"))
    with pytest.raises(StageUnavailable, match=r"127\.0\.0\.1:9"):
        await dead.load()
    await dead.close()
    with pytest.raises(ModelError, match="base_url"):
        OpenAILanguageModel(LlmSettings(backend="openai"))


async def test_an_address_without_its_v1_is_told_at_the_start(server: Server) -> None:
    root = server.url.removesuffix("/v1")
    model = OpenAILanguageModel(LlmSettings(backend="openai", model="good", base_url=f"{root}/"))
    with pytest.raises(ModelError, match=rf'llm\.base_url = "{root}" .* set it to "{server.url}"'):
        await model.load()
    await model.close()


async def test_a_server_that_keeps_no_list_is_taken_at_its_word_until_it_refuses(server: Server) -> None:
    server.lists_models = False
    server.plays = ["404"]
    root = server.url.removesuffix("/v1")
    model = OpenAILanguageModel(LlmSettings(backend="openai", model="good", base_url=root))
    await model.load()
    with pytest.raises(StageError, match=r"check llm\.base_url, which mostly ends in /v1, and llm\.model"):
        await read(model)
    await model.close()
