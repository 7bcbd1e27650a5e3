"""The client of WebSocket sound, against a server that speaks the protocol of docs/events.md and fails on demand."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

from app.client import (
    ClientError,
    RemoteSession,
    ServerAddress,
    ServerRefused,
    UntrustedCertificate,
    fetch_certificate,
    trusting,
)
from app.client import session as client
from app.config.settings import ServerSettings, Settings
from app.dialogue.options import parse_options
from app.errors import InvalidRequest
from app.server.tls import find_certificate

Behave = Callable[["Peer", ServerConnection], Awaitable[None]]


async def stay(peer: Peer, socket: ServerConnection) -> None:
    await socket.wait_closed()


class Peer:
    """The other end. ``starts`` are first messages, ``events`` and ``frames`` what came after them."""

    def __init__(self, behave: Behave = stay) -> None:
        self.starts: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.frames: list[bytes] = []
        self.offered: list[str] = []
        self.close_codes: list[int | None] = []
        self.arrived = asyncio.Event()
        self._behave = behave

    async def handle(self, socket: ServerConnection) -> None:
        self.offered = [socket.request.headers["Sec-WebSocket-Protocol"]]
        self.starts.append(json.loads(await socket.recv()))
        await greet(socket)
        reading = asyncio.create_task(self._read(socket))
        await self._behave(self, socket)
        await asyncio.gather(reading, return_exceptions=True)
        self.close_codes.append(socket.close_code)

    async def _read(self, socket: ServerConnection) -> None:
        async for message in socket:
            if isinstance(message, bytes):
                self.frames.append(message)
            else:
                self.events.append(json.loads(message))
            self.arrived.set()


async def greet(socket: ServerConnection) -> None:
    session = {"id": "sess_1", "resume": {"token": "once more", "keep_s": 3.0}, "resumed": False}
    await socket.send(json.dumps({"type": "session.created", "session": session}))


@asynccontextmanager
async def serving(
    handle: Callable[[ServerConnection], Awaitable[None]], **options: Any
) -> AsyncIterator[ServerAddress]:
    secure = "ssl" in options
    async with serve(
        handle, "127.0.0.1", 0, subprotocols=[Subprotocol("parley")], close_timeout=0.2, **options
    ) as server:
        port = server.sockets[0].getsockname()[1]
        yield ServerAddress("127.0.0.1", port, secure, token="secret")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event to set
            await asyncio.sleep(0.01)


async def test_options_and_token_go_out_and_events_and_sound_travel_both_ways() -> None:
    async def speak(peer: Peer, socket: ServerConnection) -> None:
        await socket.send(json.dumps({"type": "parley.state", "state": "speaking"}))
        for _ in range(10):
            await socket.send(np.full(480, 3000, "<i2").tobytes())
        await socket.wait_closed()

    peer, told = Peer(speak), []
    async with serving(peer.handle) as address:
        session = await RemoteSession.open(address, told.append, options={"output_modalities": ["audio"]})
        assert (session.id, session.resume_token) == ("sess_1", "once more")
        session.push_audio(np.arange(320, dtype=np.int16))
        session.receive({"type": "response.cancel"})
        await until(lambda: bool(peer.events and peer.frames and session._sound.stored_s >= 0.1))
        sound = session.pull_audio(4800)
        await session.close("over")
        await session.wait_closed()
    assert peer.starts == [{"type": "parley.start", "session": {"type": "realtime", "output_modalities": ["audio"]}}]
    assert peer.offered == ["parley, parley.token.c2VjcmV0"]
    assert peer.events == [{"type": "response.cancel"}]
    assert peer.frames == [np.arange(320, dtype="<i2").tobytes()]
    assert abs(int(sound[2400]) - 3000) < 30
    assert [event["type"] for event in told] == ["session.created", "parley.state"]
    assert peer.close_codes == [1000], "the session must be hung up, not left waiting"


async def test_a_lost_connection_is_taken_up_again_with_the_token_and_what_was_heard_last() -> None:
    async def fall(peer: Peer, socket: ServerConnection) -> None:
        if len(peer.starts) == 1:
            await socket.send(json.dumps({"type": "parley.heard", "response_id": "r", "item_id": "i", "chars": 7}))
            await socket.send(json.dumps({"type": "parley.state", "state": "speaking"}))
            await asyncio.sleep(0.05)
            socket.transport.abort()
        else:
            await socket.wait_closed()

    peer, told = Peer(fall), []
    async with serving(peer.handle) as address:
        session = await RemoteSession.open(address, told.append)
        await until(lambda: session.reconnects == 1)
        session.receive({"type": "response.create"})
        await until(lambda: bool(peer.events))
        await session.close("over")
    assert peer.starts[1]["resume"] == {"token": "once more", "heard": {"response_id": "r", "chars": 7}}
    assert {"type": "parley.state", "state": "reconnecting"} in told


async def test_a_session_that_is_gone_meanwhile_ends_with_the_servers_words() -> None:
    peer, told = Peer(), []

    async def handle(socket: ServerConnection) -> None:
        if not peer.starts:
            peer.starts.append(json.loads(await socket.recv()))
            await greet(socket)
            socket.transport.abort()
        else:
            await socket.send(
                json.dumps({"type": "error", "error": {"code": "resume_expired", "message": "It is over."}})
            )
            await socket.close(4410)

    async with serving(handle) as address:
        session = await RemoteSession.open(address, told.append)
        await asyncio.wait_for(session.wait_closed(), 5)
    assert told[-1]["type"] == "parley.closed"
    assert "It is over." in told[-1]["reason"]


async def test_a_session_that_another_client_took_is_not_fought_for() -> None:
    async def replace(peer: Peer, socket: ServerConnection) -> None:
        await socket.close(4409, "replaced")

    peer, told = Peer(replace), []
    async with serving(peer.handle) as address:
        session = await RemoteSession.open(address, told.append)
        await asyncio.wait_for(session.wait_closed(), 5)
    assert session.replaced
    assert len(peer.starts) == 1


async def test_a_client_that_only_types_still_gives_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_BEAT_S", 0.05)
    peer = Peer()
    async with serving(peer.handle) as address:
        session = await RemoteSession.open(address, lambda event: None)
        await until(lambda: bool(peer.events))
        await session.close("over")
    assert peer.events[0]["type"] == "parley.ping"


async def test_a_server_that_refuses_is_quoted() -> None:
    async def handle(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send(json.dumps({"type": "error", "error": {"code": "session_limit", "message": "Full up."}}))
        await socket.close(4503)

    async with serving(handle) as address:
        with pytest.raises(ServerRefused, match="Full up"):
            await RemoteSession.open(address, lambda event: None)


async def test_a_voice_that_the_server_does_not_have_is_told_by_its_name() -> None:
    async def handle(socket: ServerConnection) -> None:
        session = json.loads(await socket.recv())["session"]
        try:
            parse_options(session, Settings(), ["heart"])
        except InvalidRequest as error:
            await socket.send(json.dumps({"type": "error", "error": {"code": error.code, "message": str(error)}}))

    async with serving(handle) as address:
        with pytest.raises(ServerRefused, match="there is no voice 'nobody' on this server; there are: heart"):
            await RemoteSession.open(address, lambda event: None, options={"audio": {"output": {"voice": "nobody"}}})


@pytest.mark.parametrize(("status", "word"), [(401, "token"), (404, "WebSocket"), (421, "allowed_origins")])
async def test_a_handshake_that_is_refused_is_explained(status: int, word: str) -> None:
    async def handle(socket: ServerConnection) -> None:
        raise AssertionError

    async with serving(handle, process_request=lambda socket, request: socket.respond(status, "no")) as address:
        with pytest.raises(ServerRefused, match=word):
            await RemoteSession.open(address, lambda event: None)


async def test_nobody_there_is_said_in_words() -> None:
    with pytest.raises(ClientError, match="cannot be reached"):
        await RemoteSession.open(ServerAddress("127.0.0.1", 9, secure=False), lambda event: None)


@pytest.fixture(scope="module")
def https(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    made = find_certificate(ServerSettings(), tmp_path_factory.mktemp("tls"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.path, made.key_path)
    return context


async def test_a_certificate_of_its_own_is_refused_until_exactly_it_is_trusted(https: ssl.SSLContext) -> None:
    peer = Peer()
    async with serving(peer.handle, ssl=https) as address:
        with pytest.raises(UntrustedCertificate, match="not signed"):
            await RemoteSession.open(address, lambda event: None)
        assert not peer.starts, "nothing may be told to a server that is not trusted"
        shown = await fetch_certificate(address)
        assert shown.matches(shown.fingerprint.lower().replace(":", ""))
        session = await RemoteSession.open(address, lambda event: None, context=trusting(shown))
        await session.close("over")
    assert len(peer.starts) == 1


def test_settings_of_the_server_name_a_resume_time_that_the_client_tries_for() -> None:
    assert ServerSettings().resume_s >= client._KEEP_S
