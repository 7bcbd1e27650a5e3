from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from benchmarks.client import ServerError, Stream, chat, request_body
from benchmarks.drive import drive
from benchmarks.workloads import Conversation, Turn

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def event(text: str | None = None, *, finish: str | None = None) -> bytes:
    delta = {"content": text} if text is not None else {}
    body = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


USAGE = (
    b'data: {"choices": [], "usage": {"prompt_tokens": 90, "completion_tokens": 5, '
    b'"prompt_tokens_details": {"cached_tokens": 64}}}\n\n'
)


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


class Server:
    """Answers each request with the scripted writes, a moment apart, and keeps what it was asked."""

    def __init__(self, writes: Sequence[bytes], *, hang_up: bool) -> None:
        self.writes = writes
        self.hang_up = hang_up
        self.heads: list[str] = []
        self.bodies: list[dict[str, object]] = []
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        self.heads.append(head)
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        self.bodies.append(json.loads(await reader.readexactly(length)))
        for data in self.writes:
            writer.write(data)
            await writer.drain()
            await asyncio.sleep(0.005)
        if not self.hang_up:
            await reader.read()  # until the client goes
        writer.close()


@asynccontextmanager
async def scripted(*writes: bytes, hang_up: bool = True) -> AsyncIterator[Server]:
    server = Server(writes, hang_up=hang_up)
    async with await asyncio.start_server(server.answer, "127.0.0.1", 0) as listening:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield server


async def test_text_usage_and_moments_come_out_of_a_chunked_stream() -> None:
    pieces = [event(""), event("Hel"), event("lo wörld"), event(finish="length"), USAGE, b"data: [DONE]\n\n"]
    async with scripted(HEAD, *(chunk(piece) for piece in pieces), b"0\r\n\r\n") as server:
        reply = await chat(server.url, [{"role": "user", "content": "hi"}], 5)
    assert reply.text == "Hello wörld"
    assert (reply.tokens, reply.prompt_tokens, reply.cached_tokens) == (5, 90, 64)
    assert len(reply.stamps_s) == 2
    assert reply.sent_s < reply.stamps_s[0] < reply.stamps_s[1] <= reply.done_s


async def test_bytes_may_be_cut_anywhere() -> None:
    whole = (
        HEAD
        + b"".join(chunk(piece) for piece in (event("one "), event("twö"), event(finish="stop"), USAGE))
        + b"0\r\n\r\n"
    )
    cut = [whole[at : at + 23] for at in range(0, len(whole), 23)]
    async with scripted(*cut) as server:
        assert (await chat(server.url, [], 5)).text == "one twö"


async def test_a_stream_without_chunks_ends_when_the_server_hangs_up() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    async with scripted(head, event("a"), event("b", finish="stop"), b"data: [DONE]\n\n") as server:
        reply = await chat(server.url, [], 2)
    assert (reply.text, reply.tokens) == ("ab", 2)


async def test_a_server_that_keeps_the_connection_open_is_not_waited_for() -> None:
    async with scripted(HEAD, chunk(event("a", finish="stop")), b"0\r\n\r\n", hang_up=False) as server:
        assert (await chat(server.url, [], 1, timeout_s=5.0)).text == "a"


@pytest.mark.parametrize(
    ("writes", "why"),
    [
        ([b'HTTP/1.1 429 Too Many Requests\r\ncontent-length: 11\r\n\r\n{"error":1}'], "status 429"),
        ([HEAD, chunk(event("a"))], "broke off"),
        ([HEAD, chunk(b'data: {"error": {"message": "no memory"}}\n\n'), b"0\r\n\r\n"], "no memory"),
        ([], "without an answer"),
    ],
)
async def test_anything_but_a_complete_reply_is_an_error(writes: list[bytes], why: str) -> None:
    async with scripted(*writes) as server:
        with pytest.raises(ServerError, match=why):
            await chat(server.url, [], 4)


async def test_a_stream_can_be_watched_and_hung_up_on() -> None:
    async with scripted(HEAD, *(chunk(event("x")) for _ in range(5)), hang_up=False) as server:
        stream = await Stream.open(server.url, request_body([], 9))
        async with asyncio.timeout(5.0):
            await stream.under_way(3)
        stream.close()


async def test_a_conversation_repeats_what_was_said_and_names_its_session() -> None:
    conversation = Conversation("Be brief.", (Turn("One?", 3), Turn("Two?", 4)))
    async with scripted(HEAD, chunk(event("Yes.", finish="length")), b"0\r\n\r\n") as server:
        [replies] = await drive(server.url, [conversation], model="m", session_prefix="call")
    assert [reply.text for reply in replies] == ["Yes.", "Yes."]
    assert [body["max_tokens"] for body in server.bodies] == [3, 4]
    assert [message["content"] for message in server.bodies[1]["messages"]] == ["Be brief.", "One?", "Yes.", "Two?"]
    assert all("x-session-id: call-0\r\n" in head for head in server.heads)
    assert all(body["ignore_eos"] and body["model"] == "m" for body in server.bodies)
