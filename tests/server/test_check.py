"""The server's half of the self-test: bounded, guarded, and without a session."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from app.config.settings import Settings
from app.server import check, create_app
from app.server.check import SOCKETS_AT_ONCE
from app.telemetry.metrics import Metrics
from app.transports.webrtc import WebRtcCalls, probe
from tests.kit.browser import loopback_media
from tests.kit.scripted_session import ScriptedHost

TOKEN = {"authorization": "Bearer s3cret"}


@pytest.fixture(autouse=True)
def _loopback() -> Iterator[None]:
    with loopback_media():
        yield


@contextlib.asynccontextmanager
async def client_of(host: ScriptedHost, **server: object) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings.model_validate({"server": server})
    app = create_app(settings, host, WebRtcCalls(host, settings.server))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        yield client


@contextlib.asynccontextmanager
async def caller() -> AsyncIterator[RTCPeerConnection]:
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    connection.createDataChannel("check", ordered=False, maxRetransmits=0)
    await connection.setLocalDescription(await connection.createOffer())
    yield connection
    await connection.close()


def offer_of(connection: RTCPeerConnection) -> dict[str, str]:
    return {"sdp": connection.localDescription.sdp, "type": "offer"}


async def test_a_probe_echoes_pings_and_uses_no_session() -> None:
    host = ScriptedHost()
    async with client_of(host) as client, caller() as connection:
        channel = connection.createDataChannel("check", ordered=False, maxRetransmits=0)
        came: asyncio.Queue[str] = asyncio.Queue()
        channel.on("message", came.put_nowait)
        channel.on("open", lambda: channel.send("ping 1"))
        response = await client.post("/check/offer", json=offer_of(connection))
        assert response.status_code == 200
        await connection.setRemoteDescription(RTCSessionDescription(**response.json()))
        assert await asyncio.wait_for(came.get(), 10) == "ping 1"
        channel.send("x" * 300)  # no ping
        channel.send("ping 2")
        assert await asyncio.wait_for(came.get(), 10) == "ping 2"
        assert host.sessions == []


async def test_probes_are_bounded_in_number_and_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "AT_ONCE", 2)
    monkeypatch.setattr(probe, "LIFE_S", 0.6)
    async with client_of(ScriptedHost()) as client, caller() as connection:
        for _ in range(2):
            assert (await client.post("/check/offer", json=offer_of(connection))).status_code == 200
        refused = await client.post("/check/offer", json=offer_of(connection))
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "overloaded"
        assert int(refused.headers["retry-after"]) >= 1
        async with asyncio.timeout(10):
            while (await client.post("/check/offer", json=offer_of(connection))).status_code != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"type": "offer"}',
        b'{"sdp": "v=0", "type": "answer"}',
        b'{"sdp": "v=0\\r\\nm=audio 9 UDP/TLS/RTP/SAVPF 111\\r\\n", "type": "offer"}',
        b'{"sdp": "v=0\\r\\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\\r\\n", "type": "offer"}',
        b"[" * 20_000,
    ],
)
async def test_a_malformed_offer_is_refused_and_leaves_nothing_open(body: bytes) -> None:
    async with client_of(ScriptedHost()) as client:
        for _ in range(probe.AT_ONCE + 1):
            response = await client.post("/check/offer", content=body, headers={"content-type": "application/json"})
            assert response.status_code == 400
            assert response.json()["error"]["code"] == "invalid_request"


async def test_a_probe_is_guarded_as_a_call_is() -> None:
    async with client_of(ScriptedHost(), token="s3cret") as client:
        for headers, status, code in (
            ({}, 401, "wrong_token"),
            ({"authorization": "Bearer wrong"}, 401, "wrong_token"),
            (TOKEN | {"origin": "https://evil.example"}, 403, "wrong_origin"),
            (TOKEN | {"host": "rebound.evil.example"}, 421, "wrong_host"),
        ):
            response = await client.post("/check/offer", json={"sdp": "v=0", "type": "offer"}, headers=headers)
            assert response.status_code == status
            assert response.json()["error"]["code"] == code


def socket_client(**server: object) -> TestClient:
    host = ScriptedHost()
    settings = Settings.model_validate({"server": server})
    return TestClient(create_app(settings, host), base_url="http://127.0.0.1")


def test_without_a_page_there_is_no_self_test() -> None:
    with socket_client() as client:
        assert client.post("/check/offer", json={"sdp": "v=0", "type": "offer"}).status_code == 404


@contextlib.contextmanager
def sockets(**server: object) -> Iterator[TestClient]:
    host = ScriptedHost()
    settings = Settings.model_validate({"server": server})
    app = create_app(settings, host, WebRtcCalls(host, settings.server))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        yield client


def test_the_socket_sends_back_what_it_gets_and_refuses_what_is_no_sound() -> None:
    with sockets() as client:
        with client.websocket_connect("ws://127.0.0.1/check/socket", subprotocols=["parley"]) as socket:
            assert socket.accepted_subprotocol == "parley"
            for piece in (b"", b"\x01" * 640):
                socket.send_bytes(piece)
                assert socket.receive_bytes() == piece
        for wrong in (b"x" * 5000, "text"):
            with client.websocket_connect("ws://127.0.0.1/check/socket", subprotocols=["parley"]) as socket:
                socket.send_bytes(wrong) if isinstance(wrong, bytes) else socket.send_text(wrong)
                with pytest.raises(WebSocketDisconnect) as closed:
                    socket.receive_bytes()
                assert closed.value.code == 1009


def test_sockets_are_bounded_in_number() -> None:
    with sockets() as client, contextlib.ExitStack() as stack:
        for _ in range(SOCKETS_AT_ONCE):
            stack.enter_context(client.websocket_connect("ws://127.0.0.1/check/socket"))
        with (
            client.websocket_connect("ws://127.0.0.1/check/socket") as late,
            pytest.raises(WebSocketDisconnect) as closed,
        ):
            late.receive_bytes()
        assert closed.value.code == 1013


def test_the_socket_is_guarded_as_a_call_is() -> None:
    with sockets(token="s3cret") as client:
        token = "parley.token.czNjcmV0"
        with client.websocket_connect("ws://127.0.0.1/check/socket", subprotocols=["parley", token]) as socket:
            socket.send_bytes(b"\x01\x02")
            assert socket.receive_bytes() == b"\x01\x02"
        for subprotocols, headers in (
            (["parley"], {}),
            (["parley", "parley.token.d3Jvbmc"], {}),
            (["parley", token], {"origin": "https://evil.example"}),
        ):
            with (
                pytest.raises(WebSocketDenialResponse) as refused,
                client.websocket_connect("ws://127.0.0.1/check/socket", subprotocols=subprotocols, headers=headers),
            ):
                pass
            assert refused.value.status_code in (401, 403)


async def test_a_client_that_goes_before_it_is_answered_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "SOCKETS_AT_ONCE", 0)
    came = asyncio.Queue[Message]()
    came.put_nowait({"type": "websocket.connect"})
    sent: list[str] = []

    async def send(message: Message) -> None:
        sent.append(message["type"])
        if message["type"] == "websocket.close":
            raise OSError("gone")

    scope = {"type": "websocket", "path": "/check/socket", "headers": [], "subprotocols": ["parley"]}
    await check.Checks(Settings().server, Metrics()).socket(WebSocket(scope, came.get, send))
    assert sent == ["websocket.accept", "websocket.close"]
