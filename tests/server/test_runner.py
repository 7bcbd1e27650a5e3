from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time

import httpx
import pytest

from app.config.settings import ServerSettings, Settings
from app.errors import ConfigError
from app.server import Access, Answer, addresses, advice, bind, create_app, serve
from app.telemetry.metrics import Metrics
from app.transports.start import AFRESH, Start
from tests.kit.scripted_session import ScriptedHost


class HostedCalls:
    """Calls without a network: each offer opens a session of ``host``."""

    def __init__(self, host: ScriptedHost, close_takes_s: float = 0.0) -> None:
        self.host = host
        self.close_takes_s = close_takes_s

    async def offer(self, sdp: str, type: str, start: Start = AFRESH) -> Answer:
        session = await self.host.open(lambda event: None, transport="webrtc")
        return Answer("v=0", "answer", session.id)

    async def hang_up(self, call_id: str, *, leave: bool = False) -> None: ...

    async def close_all(self) -> None:
        await asyncio.sleep(self.close_takes_s)
        for session in self.host.sessions:
            await session.close("server_shutdown")


def test_a_port_in_use_is_told_with_its_number_and_the_remedy() -> None:
    with contextlib.closing(bind("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"Port {port} on 127.0.0.1 is already in use.*--port.*server\.port"):
            bind("127.0.0.1", port)


def test_a_host_that_is_no_address_of_this_machine_is_told() -> None:
    with pytest.raises(ConfigError, match=r"server\.host 192\.0\.2\.7"):
        bind("192.0.2.7", 0)
    with pytest.raises(ConfigError, match=r"server\.host 'no such host'"):
        bind("no such host", 0)


def test_localhost_is_bound_where_the_printed_address_points() -> None:
    with contextlib.closing(bind("localhost", 0)) as sock:
        assert sock.family == socket.AF_INET
        assert addresses(sock, Access("", True, frozenset())) == (f"http://127.0.0.1:{sock.getsockname()[1]}/",)
        assert advice(sock) == ""


def test_the_printed_addresses_of_an_open_bind_carry_the_token_and_the_https_advice() -> None:
    access = Access.from_settings(ServerSettings(host="0.0.0.0"))
    with contextlib.closing(bind("0.0.0.0", 0)) as sock:
        port = sock.getsockname()[1]
        printed = addresses(sock, access)
        assert printed[0] == f"http://127.0.0.1:{port}/#token={access.token}"
        assert all(line.endswith(f"#token={access.token}") for line in printed)
        assert "https" in advice(sock)


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_calls_in_order_and_within_five_seconds(signal_number: signal.Signals) -> None:
    host = ScriptedHost()
    sock = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    ready = asyncio.Event()
    serving = asyncio.create_task(serve(create_app(Settings(), host, HostedCalls(host)), sock, on_ready=ready.set))
    await asyncio.wait_for(ready.wait(), 5)
    async with httpx.AsyncClient(base_url=url) as client:  # keeps its connection open during the shutdown
        answer = await client.post("/offer", json={"sdp": "v=0", "type": "offer"})
        assert answer.status_code == 200
        assert host.active == 1
        began = time.monotonic()
        os.kill(os.getpid(), signal_number)
        await asyncio.wait_for(serving, 5)
        assert time.monotonic() - began < 5
    assert host.sessions[0].close_reason == "server_shutdown"
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name() in ("http", "event-loop-lag")] == []


async def test_calls_that_do_not_close_cannot_hold_up_the_shutdown() -> None:
    host = ScriptedHost()
    ready = asyncio.Event()
    app = create_app(Settings(), host, HostedCalls(host, close_takes_s=60))
    serving = asyncio.create_task(serve(app, bind("127.0.0.1", 0), on_ready=ready.set))
    await asyncio.wait_for(ready.wait(), 5)
    began = time.monotonic()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert time.monotonic() - began < 5


async def test_the_lag_gauge_shows_a_blocked_event_loop() -> None:
    metrics = Metrics()
    watching = asyncio.create_task(metrics.watch_loop())
    await asyncio.sleep(0.15)
    time.sleep(0.3)  # noqa: ASYNC251 - blocking the loop is the point
    await asyncio.sleep(0.15)
    watching.cancel()
    lag = metrics.registry.get_sample_value("parley_event_loop_lag_seconds")
    assert lag is not None
    assert 0.15 < lag < 0.6
