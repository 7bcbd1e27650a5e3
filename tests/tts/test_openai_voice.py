"""A voice behind /v1/audio/speech, against a real local server that also misbehaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import numpy as np
import pytest

from app.config.settings import RuntimeSettings, TtsSettings
from app.errors import ModelError, Overloaded, StageError, StageTimeout, StageUnavailable
from app.tts.openai import OpenAISynthesizer

SOUND = np.arange(-6000, 6000, dtype="<i2").tobytes()


class SpeechServer:
    """Speaks just enough HTTP/1.1 to stream sound, and to break off, stall and refuse."""

    def __init__(self) -> None:
        self.mode = "well"
        self.voices: Any = None
        self.requests: list[dict[str, Any]] = []
        self.headers: list[str] = []
        self.dropped = asyncio.Event()
        self.port = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.headers.append(head)
            if head.startswith("GET "):
                return await self.list_voices(writer)
            length = next(int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-l"))
            self.requests.append(json.loads(await reader.readexactly(length)))
            await self.answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.dropped.set()
        finally:
            writer.close()

    async def list_voices(self, writer: asyncio.StreamWriter) -> None:
        status = "404 Not Found" if self.voices is None else "200 OK"
        body = json.dumps(self.voices).encode()
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mode.isdigit():
            body = b'{"error": {"message": "no such voice"}}'
            writer.write(f"HTTP/1.1 {self.mode} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            return await writer.drain()
        if self.mode == "mute":
            await reader.read()  # until the client goes away
            return self.dropped.set()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nTransfer-Encoding: chunked\r\n\r\n")
        for start in range(0, len(SOUND), 3333):  # odd pieces end inside a sample
            piece = SOUND[start : start + 3333]
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
            if self.mode == "stall" and start:
                await reader.read()
                return self.dropped.set()
            if self.mode == "break" and start:
                return None
            if self.mode == "slow":
                await asyncio.sleep(0.03)
        writer.write(b"0\r\n\r\n")
        return await writer.drain()


@asynccontextmanager
async def serving(mode: str = "well", **changes: object) -> AsyncIterator[tuple[SpeechServer, OpenAISynthesizer]]:
    server = SpeechServer()
    server.mode = mode
    listener = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    settings = TtsSettings(
        backend="openai",
        model="kokoro",
        base_url=f"http://127.0.0.1:{server.port}/v1/",
        timeout_s=0.4,
        **changes,  # type: ignore[arg-type]
    )
    voice = OpenAISynthesizer(settings, RuntimeSettings())  # type: ignore[call-arg]
    try:
        yield server, voice
    finally:
        await voice.close()
        listener.close()


async def collect(voice: OpenAISynthesizer, text: str = "Hello there.") -> bytes:
    return b"".join([chunk.astype("<i2").tobytes() async for chunk in voice.synthesize(text)])


async def test_the_sound_arrives_whole_though_pieces_end_inside_a_sample() -> None:
    async with serving(api_key="k1", voice="bella", speed=1.2) as (server, voice):
        assert await collect(voice) == SOUND
        assert voice.rate_hz == 24_000
        assert server.requests == [
            {"model": "kokoro", "voice": "bella", "input": "Hello there.", "response_format": "pcm", "speed": 1.2}
        ]
        assert "POST /v1/audio/speech " in server.headers[0]
        assert "authorization: bearer k1" in server.headers[0].lower()


async def test_loading_speaks_once_and_names_the_server() -> None:
    async with serving() as (server, voice):
        report = await voice.load()
        assert report.stage == "TTS"
        assert f"127.0.0.1:{server.port}" in report.detail
        assert len(server.requests) == 1


async def test_text_without_words_is_not_sent() -> None:
    async with serving() as (server, voice):
        assert await collect(voice, " ... ") == b""
        assert server.requests == []


@pytest.mark.parametrize("mode", ["mute", "stall"])
async def test_a_server_that_falls_silent_is_a_timeout_and_is_hung_up_on(mode: str) -> None:
    async with serving(mode) as (server, voice):
        with pytest.raises(StageTimeout, match=rf"127\.0\.0\.1:{server.port}.*tts\.timeout_s"):
            await collect(voice)
        async with asyncio.timeout(2):
            await server.dropped.wait()


async def test_a_connection_that_breaks_off_is_unavailable_and_names_the_host() -> None:
    async with serving("break") as (server, voice):
        with pytest.raises(StageUnavailable, match=rf"127\.0\.0\.1:{server.port}"):
            await collect(voice)
        server.mode = "well"
        assert await collect(voice) == SOUND


async def test_no_server_at_all_is_unavailable_and_names_the_host() -> None:
    voice = OpenAISynthesizer(
        TtsSettings(backend="openai", base_url="http://127.0.0.1:9/v1"),  # type: ignore[call-arg]
        RuntimeSettings(),  # type: ignore[call-arg]
    )
    with pytest.raises(StageUnavailable, match=r"127\.0\.0\.1:9"):
        await collect(voice)
    await voice.close()


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        ("400", StageError, r"tts\.voice.*no such voice"),
        ("401", StageError, r"tts\.api_key"),
        ("404", StageError, r"tts\.model"),
        ("429", Overloaded, "overloaded"),
        ("500", StageUnavailable, "500"),
        ("503", Overloaded, "overloaded"),
    ],
)
async def test_a_refusal_says_what_to_change(status: str, error: type[StageError], says: str) -> None:
    async with serving(status) as (_, voice):
        with pytest.raises(error, match=says):
            await collect(voice)


async def test_closing_the_stream_hangs_up() -> None:
    async with serving("stall") as (server, voice):
        async with aclosing(voice.synthesize("Hello.")) as chunks:
            assert len(await anext(chunks))
        async with asyncio.timeout(2):
            await server.dropped.wait()


async def test_more_than_may_wait_is_refused_and_the_place_is_free_again_later() -> None:
    async with serving("slow", max_waiting=1) as (_, voice):
        first = asyncio.create_task(collect(voice))
        await asyncio.sleep(0.02)
        with pytest.raises(Overloaded, match=r"tts\.max_waiting"):
            await collect(voice)
        assert await first == SOUND
        assert await collect(voice) == SOUND


def test_a_missing_address_is_refused_with_an_example() -> None:
    with pytest.raises(ModelError, match=r"tts\.base_url is empty"):
        OpenAISynthesizer(TtsSettings(backend="openai"), RuntimeSettings())  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("listed", "known"),
    [
        ({"voices": ["af_bella", "am_adam"]}, ("alloy", "af_bella", "am_adam")),
        ({"voices": [{"id": "alloy"}, {"name": "echo"}, {"odd": 1}, 7]}, ("alloy", "echo")),
        (["echo", "echo", "alloy"], ("echo", "alloy")),
        ({"voices": 3}, ("alloy",)),
        ("what?", ("alloy",)),
        (None, ("alloy",)),
    ],
)
async def test_the_voices_are_those_that_the_server_lists_and_the_one_of_the_settings(
    listed: object, known: tuple[str, ...]
) -> None:
    async with serving() as (server, voice):
        server.voices = listed
        await voice.load()
        assert voice.voices == known
        assert voice.default_voice == "alloy"


async def test_openai_itself_lists_nothing_so_its_voices_are_known() -> None:
    settings = TtsSettings(backend="openai", model="tts-1", base_url="https://api.openai.com/v1")  # type: ignore[call-arg]
    voice = OpenAISynthesizer(settings, RuntimeSettings())  # type: ignore[call-arg]
    assert {"alloy", "nova", "shimmer"} <= set(await voice._listed())
    await voice.close()


async def test_a_call_chooses_its_own_voice_and_speed_and_an_unknown_voice_is_told_those_that_there_are() -> None:
    async with serving(speed=1.2) as (server, voice):
        server.voices = ["echo"]
        await voice.load()
        for changes in ({}, {"voice": "echo", "speed": 0.8}, {"speed": 9.0}):
            async with aclosing(voice.synthesize("Hello.", **changes)) as chunks:  # type: ignore[arg-type]
                async for _ in chunks:
                    pass
        spoken = [(request["voice"], request["speed"]) for request in server.requests[1:]]
        assert spoken == [("alloy", 1.2), ("echo", 0.8), ("alloy", 2.0)]
        with pytest.raises(StageError, match=r"'nobody'; available: alloy, echo"):
            await anext(voice.synthesize("Hello.", voice="nobody"))
