"""Against a real HTTP server on loopback that can also misbehave."""

from __future__ import annotations

import asyncio
import json
import time

import numpy as np
import pytest
from python_multipart.multipart import parse_options_header

from app.asr.base import Transcript
from app.asr.openai import OpenAIRecognizer
from app.audio.wav import read_wav
from app.config.settings import AsrSettings
from app.errors import ConfigError, ModelError, Overloaded, StageError, StageTimeout, StageUnavailable
from tests.kit.sounds import tone

SOUND = tone(440, 0.5)


class Server:
    """``answer`` is (status, headers, body), or "hang", or "drop"."""

    def __init__(self):
        self.answer = (200, "", json.dumps({"text": " Hello there. "}))
        self.requests = []
        self._connections = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc):
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader, writer):
        self._connections.add(asyncio.current_task())
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = [line.lower() for line in head.split(b"\r\n")]
                length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))
                self.requests.append((head.decode(), await reader.readexactly(length)))
                if self.answer == "hang":
                    await asyncio.sleep(30)
                if self.answer == "drop":
                    break
                status, headers, body = self.answer
                length = len(body.encode())
                writer.write(f"HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\n\r\n{body}".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def server():
    async with Server() as running:
        yield running


@pytest.fixture
async def make(server):
    made = []

    def build(**options):
        values = {"base_url": f"http://127.0.0.1:{server.port}/v1", "model": "tiny", "timeout_s": 2.0, **options}
        made.append(OpenAIRecognizer(AsrSettings(backend="openai", **values)))
        return made[-1]

    yield build
    for recognizer in made:
        await recognizer.close()


def form(request):
    """Fields of the multipart body; good enough for what we send."""
    head, body = request
    line = next(line for line in head.split("\r\n") if line.lower().startswith("content-type"))
    boundary = parse_options_header(line.split(":", 1)[1].strip())[1][b"boundary"]
    fields = {}
    for part in body.split(b"--" + boundary)[1:-1]:
        headers, _, value = part.strip(b"\r\n").partition(b"\r\n\r\n")
        fields[headers.split(b'name="')[1].split(b'"')[0].decode()] = value
    return fields


async def test_the_sound_and_the_settings_arrive_and_the_text_comes_back(server, make):
    heard = await make(api_key="secret").transcribe(SOUND, language="pl")
    assert (heard.text, heard.language, heard.confidence) == ("Hello there.", "pl", 1.0)
    head, _ = server.requests[0]
    assert head.startswith("POST /v1/audio/transcriptions ")
    assert "authorization: bearer secret" in head.lower()
    fields = form(server.requests[0])
    assert (fields["model"], fields["language"], fields["response_format"]) == (b"tiny", b"pl", b"json")
    assert np.array_equal(read_wav(fields["file"]), SOUND)


async def test_the_only_allowed_language_is_told_and_of_several_the_server_chooses(server, make):
    await make(languages=("fr",)).transcribe(SOUND)
    assert form(server.requests[0])["language"] == b"fr"
    server.answer = (200, "", json.dumps({"text": "Dzień dobry", "language": "pl"}))
    heard = await make(languages=("en", "pl")).transcribe(SOUND)
    assert "language" not in form(server.requests[1])
    assert (heard.text, heard.language) == ("Dzień dobry", "pl")


async def test_a_language_that_is_not_allowed_never_costs_a_turn(server, make):
    server.answer = (200, "", json.dumps({"text": "Salve", "language": "la"}))
    recognizer = make(languages=("en", "pl"))
    assert await recognizer.transcribe(SOUND, expected="pl") == Transcript("Salve", "pl")
    assert await recognizer.transcribe(SOUND, expected="xx") == Transcript("Salve", "en")


async def test_known_words_keep_their_spelling_and_are_not_sent(server, make):
    assert (await make().transcribe(SOUND, known="hello")).text == "hello there."
    assert "prompt" not in form(server.requests[0])


async def test_a_partial_gives_way_to_others_then_rests_and_of_a_long_one_the_end_is_sent(server, make):
    recognizer = make()
    long = tone(440, 40.0)
    assert (await recognizer.transcribe(long, partial=True)).text == "Hello there."
    sent = read_wav(form(server.requests[0])["file"])
    assert 8 <= len(sent) / 16_000 <= 12
    assert np.array_equal(sent, long[-len(sent) :])
    with pytest.raises(Overloaded, match="share"):
        await recognizer.transcribe(SOUND, partial=True)
    final = asyncio.create_task(recognizer.transcribe(SOUND))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="at work"):
        await recognizer.transcribe(SOUND, partial=True)
    assert (await final).text == "Hello there."


async def test_loading_tries_the_server(server, make):
    report = await make().load()
    assert report.stage == "ASR"
    assert f"127.0.0.1:{server.port}" in report.detail
    server.answer = (401, "", '{"error": "bad key"}')
    with pytest.raises(ModelError, match=r"401.*bad key.*asr\.api_key"):
        await make().load()


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ((500, "", "kaboom"), StageUnavailable, "500: kaboom"),
        ((404, "", "no such model"), StageError, "404: no such model"),
        ((200, "", "<html>a proxy</html>"), StageError, "without a transcript"),
        ((200, "", '{"txt": 1}'), StageError, "without a transcript"),
        ((200, "", "[]"), StageError, "without a transcript"),
        ("drop", StageUnavailable, "cannot be reached"),
    ],
)
async def test_each_misbehaviour_is_one_clear_error_that_names_the_host(server, make, answer, error, words):
    server.answer = answer
    with pytest.raises(error, match=words) as caught:
        await make().transcribe(SOUND)
    assert f"127.0.0.1:{server.port}" in str(caught.value)
    server.answer = (200, "", '{"text": "again"}')
    assert (await make().transcribe(SOUND)).text == "again"


async def test_a_server_that_hangs_costs_the_timeout_and_no_more(server, make):
    server.answer = "hang"
    began = time.perf_counter()
    with pytest.raises(StageTimeout, match=r"127\.0\.0\.1:\d+ did not .*timeout_s = 0\.2 s"):
        await make(timeout_s=0.2).transcribe(SOUND)
    assert time.perf_counter() - began < 1.0


async def test_too_many_requests_are_told_with_the_time_to_wait(server, make):
    server.answer = (429, "Retry-After: 7\r\n", "")
    with pytest.raises(Overloaded) as caught:
        await make().transcribe(SOUND)
    assert caught.value.retry_after_s == 7.0


async def test_more_than_max_waiting_are_refused_here_and_a_cancelled_one_makes_room(server, make):
    server.answer = "hang"
    recognizer = make(max_waiting=1)
    waiting = asyncio.create_task(recognizer.transcribe(SOUND))
    await asyncio.sleep(0.05)
    with pytest.raises(Overloaded, match=r"asr\.max_waiting"):
        await recognizer.transcribe(SOUND)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    server.answer = (200, "", '{"text": "room"}')
    assert (await recognizer.transcribe(SOUND)).text == "room"


async def test_a_server_that_is_not_there_is_named(make):
    with pytest.raises(StageUnavailable, match=r"127\.0\.0\.1:9 cannot be reached.*asr\.base_url"):
        await make(base_url="http://127.0.0.1:9/v1").transcribe(SOUND)


def test_a_missing_or_wrong_address_is_a_configuration_error():
    for wrong in ("", "localhost:8000", "ftp://a/v1"):
        with pytest.raises(ConfigError, match=r"asr\.base_url"):
            OpenAIRecognizer(AsrSettings(backend="openai", base_url=wrong))
