"""A streaming chat client that costs the server's cores next to nothing.

While replies stream it only notes what arrived when; HTTP and JSON are taken apart once a reply is complete. On a
machine with two cores a client that parses as it reads takes a measurable part of what it measures.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from benchmarks.measure import Reply
from benchmarks.workloads import ChatMessage

Piece = tuple[float, bytes]
"""When it arrived (seconds of time.perf_counter) and what it was."""


class ServerError(Exception):
    """The server refused a request or cut a reply off."""


class _Recorder(asyncio.Protocol):
    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.pieces.append((time.perf_counter(), data))
        if data.endswith(b"0\r\n\r\n") and (len(data) == 5 or data.endswith(b"\n0\r\n\r\n")):
            self._end()  # the last chunk; not every server hangs up after it

    def connection_lost(self, error: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self.over.done():
            self.over.set_result(None)


class Stream:
    """One request on a connection of its own."""

    def __init__(self, transport: asyncio.Transport, recorder: _Recorder, sent_s: float) -> None:
        self._transport = transport
        self._recorder = recorder
        self.sent_s = sent_s

    @classmethod
    async def open(cls, base_url: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Stream:
        """Connect and send. Raises OSError if nobody listens."""
        address = urlsplit(base_url)
        host, port = address.hostname or "127.0.0.1", address.port or 80
        payload = json.dumps(body).encode()
        lines = [
            f"POST {address.path.rstrip('/')}/v1/chat/completions HTTP/1.1",
            f"Host: {host}:{port}",
            "Connection: close",
            "Content-Type: application/json",
            "Accept: text/event-stream",
            f"Content-Length: {len(payload)}",
            *(f"{name}: {value}" for name, value in (headers or {}).items()),
        ]
        transport, recorder = await asyncio.get_running_loop().create_connection(_Recorder, host, port)
        sent_s = time.perf_counter()
        transport.write("\r\n".join(lines).encode() + b"\r\n\r\n" + payload)
        return cls(transport, recorder, sent_s)

    async def under_way(self, pieces: int) -> None:
        """Until that many pieces have arrived, or the stream is over."""
        while len(self._recorder.pieces) < pieces and not self._recorder.over.done():  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    async def reply(self, wanted_tokens: int) -> Reply:
        """Until the reply is complete. Raises ServerError."""
        await asyncio.shield(self._recorder.over)
        return read_reply(self._recorder.pieces, self.sent_s, wanted_tokens)

    def close(self) -> None:
        """Hang up, whatever has arrived."""
        self._transport.abort()


async def chat(
    base_url: str,
    messages: Sequence[ChatMessage],
    reply_tokens: int,
    *,
    model: str = "default",
    session: str | None = None,
    timeout_s: float = 300.0,
) -> Reply:
    """One greedy reply of exactly ``reply_tokens`` tokens. Raises ServerError, OSError, TimeoutError."""
    stream = await Stream.open(
        base_url,
        request_body(messages, reply_tokens, model),
        {"x-session-id": session} if session else None,
    )
    try:
        async with asyncio.timeout(timeout_s):
            return await stream.reply(reply_tokens)
    finally:
        stream.close()


def request_body(messages: Sequence[ChatMessage], reply_tokens: int, model: str = "default") -> dict[str, Any]:
    return {
        "model": model,
        "messages": list(messages),
        "max_tokens": reply_tokens,
        "temperature": 0.0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def read_reply(pieces: Sequence[Piece], sent_s: float, wanted_tokens: int) -> Reply:
    """Take a recorded answer apart. Raises ServerError for anything but a complete stream of events."""
    status, stamped = _split_head(pieces)
    if status != 200:
        body = b"".join(data for _, data in stamped).decode("utf-8", "replace")
        raise ServerError(f"status {status}: {body[:300]}")
    stamps: list[float] = []
    text: list[str] = []
    usage: Mapping[str, Any] = {}
    finished = False
    done_s = sent_s
    for at, line in _lines(stamped):
        if not line.startswith(b"data:"):
            continue
        payload = line[5:].strip()
        if payload == b"[DONE]":
            break
        event = json.loads(payload)
        if "error" in event:
            raise ServerError(f"the stream ended with {event['error']}")
        usage = event.get("usage") or usage
        for choice in event.get("choices") or ():
            content = choice.get("delta", {}).get("content")
            if content:
                stamps.append(at)
                text.append(content)
            finished = finished or bool(choice.get("finish_reason"))
            done_s = at
    if not finished:
        raise ServerError(f"the stream broke off after {len(stamps)} pieces")
    details = usage.get("prompt_tokens_details") or {}
    return Reply(
        sent_s=sent_s,
        stamps_s=tuple(stamps),
        done_s=done_s,
        tokens=int(usage.get("completion_tokens", len(stamps))),
        wanted_tokens=wanted_tokens,
        prompt_tokens=int(usage.get("prompt_tokens", 0)),
        cached_tokens=int(details.get("cached_tokens") or 0),
        text="".join(text),
    )


def _split_head(pieces: Sequence[Piece]) -> tuple[int, list[Piece]]:
    """Status code, and the body with its chunk framing taken off."""
    head = b""
    for index, (at, data) in enumerate(pieces):
        head += data
        before, found, after = head.partition(b"\r\n\r\n")
        if found:
            body = [(at, after), *pieces[index + 1 :]]
            chunked = b"transfer-encoding: chunked" in before.lower()
            return int(before.split(b" ", 2)[1]), list(_unchunk(body)) if chunked else body
    raise ServerError("the server hung up without an answer")


def _unchunk(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """RFC 9112 section 7.1; a piece of the body carries the moment at which its last byte arrived."""
    buffer = b""
    for at, data in pieces:
        buffer += data
        while b"\r\n" in buffer:
            size, _, rest = buffer.partition(b"\r\n")
            length = int(size.split(b";")[0], 16)
            if length == 0:
                return
            if len(rest) < length + 2:
                break
            yield at, rest[:length]
            buffer = rest[length + 2 :]


def _lines(pieces: Sequence[Piece]) -> Iterator[Piece]:
    buffer = b""
    for at, data in pieces:
        *complete, buffer = (buffer + data).split(b"\n")
        for line in complete:
            yield at, line.rstrip(b"\r")
