"""Calls over a real WebSocket, from a real client to the real server, on scripted sessions."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from app.config import Settings
from app.config.settings import ServerSettings
from app.server import create_app, find_certificate
from app.server.websocket_protocol import BoundedWebSocket
from app.telemetry.metrics import Metrics
from app.transports.webrtc import WebRtcCalls
from tests.kit.page_server import PageServer, page_server
from tests.kit.scripted_session import ScriptedHost, ScriptedSession

START: dict[str, Any] = {"type": "parley.start"}


class Client:
    """What a page does, without a page: events are kept, sound is counted."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.events: list[dict[str, Any]] = []
        self.sound = bytearray()
        self.code: int | None = None
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            while True:
                message = await self.connection.recv()
                if isinstance(message, str):
                    self.events.append(json.loads(message))
                else:
                    self.sound += message
        except ConnectionClosed as closed:
            self.code = closed.rcvd.code if closed.rcvd else 1006

    async def send(self, event: Any) -> None:
        await self.connection.send(json.dumps(event))

    async def until(self, type: str) -> dict[str, Any]:
        async with asyncio.timeout(5):
            while not (found := [event for event in self.events if event["type"] == type]):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return found[0]

    async def closed(self) -> int | None:
        await asyncio.wait_for(self._reading, 8)
        return self.code


@asynccontextmanager
async def client(server: PageServer, start: Any = START, **options: Any) -> AsyncIterator[Client]:
    options.setdefault("subprotocols", ["parley"])
    async with connect(server.url.replace("http", "ws") + "call", **options) as connection:
        opened = Client(connection)
        if start is not None:
            await opened.send(start)
        yield opened


async def gone(session: ScriptedSession) -> None:
    async with asyncio.timeout(5):
        while not session.left and session.close_reason is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_sound_and_events_go_both_ways_at_their_rates() -> None:
    async with page_server(ScriptedHost()) as server, client(server) as caller:
        created = await caller.until("session.created")
        assert created["session"]["id"] == "s_0"
        assert caller.connection.subprotocol == "parley"
        session = server.host.sessions[0]
        session.play_tone(600.0, 1.0)
        for _ in range(60):
            await caller.connection.send(np.full(320, 1234, "<i2").tobytes())
            await asyncio.sleep(0.02)
        await caller.send({"type": "parley.ping", "id": 7})
        assert (await caller.until("parley.pong"))["id"] == 7
        assert 50 <= session.frames <= 75
        assert session.loudest == 1234
        heard = np.frombuffer(bytes(caller.sound), "<i2")
        loud = np.flatnonzero(np.abs(heard.astype(int)) > 2000)
        assert (loud[-1] - loud[0]) / 24_000 == pytest.approx(1.0, abs=0.02)
        middle = heard[loud[0] :][2400:21_600]
        assert np.abs(np.fft.rfft(middle)).argmax() * 24_000 / len(middle) == pytest.approx(600.0, rel=0.01)


async def test_a_client_that_says_goodbye_ends_its_session_and_one_that_is_lost_leaves_it() -> None:
    async with page_server(ScriptedHost()) as server:
        async with client(server) as caller:
            await caller.until("session.created")
            await caller.connection.close(1000)
        await gone(server.host.sessions[0])
        assert server.host.sessions[0].close_reason == "hung_up"
        for code in (1001, 4001):
            async with client(server) as caller:
                await caller.until("session.created")
                await caller.connection.close(code)
            await gone(server.host.sessions[-1])
            assert server.host.sessions[-1].close_reason is None
        async with client(server) as caller:
            await caller.until("session.created")
            caller.connection.transport.abort()
            await gone(server.host.sessions[-1])
            assert server.host.sessions[-1].left


async def test_the_first_message_says_what_the_session_is_like() -> None:
    options = {"audio": {"output": {"voice": "other", "speed": 1.5}, "input": {"turn_detection": None}}}
    async with page_server(ScriptedHost()) as server, client(server, {**START, "session": options}) as caller:
        session = (await caller.until("session.created"))["session"]
        assert (session["voice"], session["speed"], session["turn_detection"]) == ("other", 1.5, None)


@pytest.mark.parametrize(
    ("start", "code", "close_code", "words"),
    [
        ([], "invalid_request", 4400, "parley.start"),
        ({"type": "parley.ping"}, "invalid_request", 4400, "parley.start"),
        ({**START, "session": {"color": "red"}}, "invalid_request", 4400, "session.color"),
        ({**START, "resume": {"token": 7}}, "invalid_request", 4400, "resume.token"),
        ({**START, "resume": {"token": "old"}}, "resume_expired", 4410, "begin a new one"),
    ],
)
async def test_what_is_wrong_with_the_first_message_is_told_and_then_shown_by_the_code(
    start: Any, code: str, close_code: int, words: str
) -> None:
    async with page_server(ScriptedHost()) as server, client(server, start) as caller:
        assert await caller.closed() == close_code
        error = caller.events[0]["error"]
        assert error["code"] == code
        assert words in error["message"]
        assert not server.host.sessions


async def test_sound_before_the_first_message_and_a_client_that_never_begins_are_refused() -> None:
    async with page_server(ScriptedHost(), connect_timeout_s=0.3) as server:
        async with client(server, None) as caller:
            await caller.connection.send(bytes(640))
            assert await caller.closed() == 4400
        async with client(server, None) as caller:
            assert await caller.closed() == 4400
            assert "0 s" in caller.events[0]["error"]["message"]


async def test_a_full_server_says_so_and_when_to_try_again() -> None:
    async with page_server(ScriptedHost(limit=1)) as server, client(server) as first:
        await first.until("session.created")
        async with client(server) as second:
            assert await second.closed() == 4503
            error = second.events[0]["error"]
            assert (error["code"], error["retry_after_s"]) == ("session_limit", 10)
        await first.send({"type": "parley.ping", "id": 1})
        await first.until("parley.pong")


async def test_messages_that_make_no_sense_are_answered_and_end_nothing() -> None:
    async with page_server(ScriptedHost()) as server, client(server) as caller:
        for message in ("{nonsense", "[1]", b"odd", '"text"'):
            await caller.connection.send(message)
        await caller.send({"type": "parley.ping", "id": 7})
        await caller.until("parley.pong")
        assert sum(event["type"] == "error" for event in caller.events) == 4


async def status_of(server: PageServer, **options: Any) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as refused:
        async with client(server, None, **options):
            pass
    response = refused.value.response
    return response.status_code, json.loads(response.body or b"{}")["error"]["code"]


def token_protocol(token: str) -> str:
    return "parley.token." + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


async def test_a_token_is_taken_from_a_subprotocol_or_a_header_and_nothing_goes_without() -> None:
    async with page_server(ScriptedHost(), token="sesame ☂") as server:
        async with client(server, subprotocols=["parley", token_protocol("sesame ☂")]) as caller:
            await caller.until("session.created")
            assert caller.connection.subprotocol == "parley", "the token is not repeated"
        for wrong in (["parley"], ["parley", token_protocol("other")], ["parley", "parley.token.%"]):
            assert await status_of(server, subprotocols=wrong) == (401, "wrong_token")
    async with (
        page_server(ScriptedHost(), token="plain") as server,
        client(server, additional_headers={"authorization": "Bearer plain"}) as caller,
    ):
        await caller.until("session.created")


async def test_pages_of_other_origins_and_other_names_of_this_machine_are_refused() -> None:
    async with page_server(ScriptedHost()) as server:
        assert await status_of(server, origin="https://evil.example") == (403, "wrong_origin")
        port = int(server.url.rsplit(":", 1)[1].strip("/"))
        elsewhere = replace(server, url=f"http://evil.example:{port}/")
        assert await status_of(elsewhere, host="127.0.0.1", port=port) == (421, "wrong_host")
        async with client(server, origin=server.url.rstrip("/")) as caller:
            await caller.until("session.created")
        assert await status_of(server, subprotocols=None) == (400, "invalid_request")


async def test_the_newer_of_two_clients_with_one_token_has_the_session_and_the_older_is_told() -> None:
    async with page_server(ScriptedHost()) as server, client(server) as older:
        token = (await older.until("session.created"))["session"]["resume"]["token"]
        heard = {"response_id": "resp_1", "chars": 12}
        async with client(server, {**START, "resume": {"token": token, "heard": heard}}) as newer:
            assert (await newer.until("session.created"))["session"]["resumed"] is True
            assert await older.closed() == 4409
            assert (await older.until("parley.closed"))["reason"] == "replaced"
            session = server.host.sessions[0]
            assert session.heard is not None
            assert (session.heard.reply_id, session.heard.chars) == ("resp_1", 12)
            await newer.send({"type": "parley.ping", "id": 1})
            await newer.until("parley.pong")
            assert session.close_reason is None
        assert len(server.host.sessions) == 1


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
async def test_a_client_that_takes_nothing_has_at_most_half_a_second_pulled_for_it_and_is_left(
    secure: bool, tmp_path: Path
) -> None:
    host = ScriptedHost()
    certificate = find_certificate(ServerSettings(), tmp_path) if secure else None
    trust = ssl.create_default_context(cafile=certificate.path) if certificate else None
    async with page_server(host, certificate=certificate) as server:
        port = int(server.url.rsplit(":", 1)[1].strip("/"))
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        uri = server.url.replace("http", "ws") + "call"
        async with connect(
            uri, subprotocols=["parley"], sock=sock, ssl=trust, max_queue=1, close_timeout=0.1
        ) as connection:
            await connection.send(json.dumps(START))
            session = await server.session()
            # Under TLS it would still read half a megabyte, so what lies below is stopped.
            tls = getattr(connection.transport, "_ssl_protocol", None)
            (tls._transport if tls else connection.transport).pause_reading()
            session.play_tone(600.0, 20.0)
            await asyncio.sleep(1.5)
            stuck_s = session.playout.played_samples / 48_000
            await asyncio.sleep(0.5)
            assert session.playout.played_samples / 48_000 == stuck_s
            assert stuck_s <= 0.6
            connection.transport.abort()
        await gone(session)
        assert session.left


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
async def test_a_client_that_sends_much_at_once_is_read_in_small_pieces_between_which_others_come(
    secure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    data_received = BoundedWebSocket.data_received

    def measured(protocol: BoundedWebSocket, data: bytes) -> None:
        read.append(len(data))
        data_received(protocol, data)

    monkeypatch.setattr(BoundedWebSocket, "data_received", measured)
    certificate = find_certificate(ServerSettings(), tmp_path) if secure else None
    trust = ssl.create_default_context(cafile=certificate.path) if certificate else None
    async with page_server(ScriptedHost(), certificate=certificate) as server, client(server, ssl=trust) as talking:
        for number in range(6):
            await talking.send({"type": "parley.ping", "id": f"{number}" * 60_000})
        await talking.send({"type": "parley.ping", "id": "last"})
        async with asyncio.timeout(5):
            while not any(event.get("id") == "last" for event in talking.events):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert sum(read) > 360_000
    assert max(read) <= (20 if secure else 4) * 1024, "of TLS a record at a time"


async def test_when_the_server_stops_each_client_is_told_before_its_connection_ends() -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(page_server(ScriptedHost()))
        url = server.url.replace("http", "ws") + "call"
        talking, waiting = [Client(await connect(url, subprotocols=["parley"])) for _ in range(2)]
        await talking.send(START)
        await talking.until("session.created")
        stopping = asyncio.create_task(stack.aclose())
        assert await talking.closed() == 1012
        assert (await talking.until("parley.closed"))["reason"] == "server_stopping"
        await waiting.closed()
        await stopping
    assert server.host.sessions[0].close_reason == "server_stopping"


def test_one_metric_counts_what_was_refused() -> None:
    host, metrics, settings = ScriptedHost(), Metrics(), Settings()
    app = create_app(settings, host, WebRtcCalls(host, settings.server), metrics=metrics)
    with (
        TestClient(app, base_url="http://127.0.0.1") as http,
        http.websocket_connect("/call", subprotocols=["parley"], headers={"host": "127.0.0.1"}) as ws,
    ):
        ws.send_json({"type": "nothing"})
        assert ws.receive_json()["error"]["code"] == "invalid_request"
        with pytest.raises(WebSocketDisconnect):
            ws.receive_json()
    assert 'parley_refused_total{code="invalid_request"} 1.0' in metrics.render().decode()
