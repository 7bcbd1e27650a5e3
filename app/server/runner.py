"""Bind first, load later, serve, and end within seconds of Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from app.errors import ConfigError
from app.server.access import Access, is_loopback
from app.server.ending import Ending
from app.server.tls import Certificate
from app.server.websocket_protocol import BoundedWebSocket
from app.transports.events import MESSAGE_LIMIT

_BACKLOG = 128
_REQUEST_GRACE_S = 0.6
"""What running requests get at shutdown before they are ended and their clients told; a second signal ends them at once."""
_HTTP_GRACE_S = 1
"""Whole seconds after which connections that still do not close, because nobody reads at their other end, are given
up. Longer than the other one: uvicorn would log a traceback for each request."""
_GOODBYE_S = 0.2


def _is_worth_telling(record: logging.LogRecord) -> bool:
    """uvicorn calls it an error that it gives up connections, even where nobody on them waits for anything."""
    return record.args != (0,) or "graceful shutdown exceeded" not in str(record.msg)


logging.getLogger("uvicorn.error").addFilter(_is_worth_telling)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket on ``host``:``port`` (0 takes a free one).

    Taken before models load, so that a busy port is told at once and not after a minute.
    Raises ConfigError.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigError(
            f"server.host {host!r} cannot be resolved ({error}); give an address of this machine."
        ) from None
    # "localhost" may list ::1 first, while the printed address and most clients say 127.0.0.1.
    family, kind, protocol, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise ConfigError(_bind_problem(host, port, error)) from None
    sock.setblocking(False)
    return sock


def _bind_problem(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} on {host} is already in use; choose another with --port or server.port, or end what holds it."
        )
    if error.errno == errno.EACCES:
        return f"Port {port} may not be opened by this user; choose one above 1023 with --port or server.port."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"server.host {host} is no address of this machine; use 127.0.0.1, or 0.0.0.0 for every address."
    return (
        f"Cannot listen on {host}:{port}: {error.strerror or error}; check --host, --port, server.host and server.port."
    )


def addresses(sock: socket.socket, access: Access, certificate: Certificate | None = None) -> tuple[str, ...]:
    """What to type into a browser, token included, nearest first; https with a ``certificate``."""
    host, port = sock.getsockname()[:2]
    fragment = f"#token={access.token}" if access.token else ""
    names = [host]
    if host in ("0.0.0.0", "::"):
        names = ["127.0.0.1", lan_address() or socket.gethostname()]
    if certificate is not None and not certificate.made:
        # By another name than those in it browsers would warn of it.
        names = [name for name in certificate.names if not name.startswith("*")][:1] or names
    scheme = "http" if certificate is None else "https"
    return tuple(f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}/{fragment}" for name in names)


def advice(sock: socket.socket, certificate: Certificate | None = None) -> str:
    """What people run into, on other machines above all; empty where there is nothing."""
    host, port = sock.getsockname()[:2]
    if certificate is not None:
        return _about(certificate, host)
    if is_loopback(host):
        return ""
    return (
        "Browsers give a page the microphone only over https or on localhost. For other machines start with --https, "
        f"put an https proxy in front, or tunnel: ssh -L {port}:127.0.0.1:{port} this-machine, then open "
        f"http://127.0.0.1:{port}/"
    )


def _about(certificate: Certificate, host: str) -> str:
    if certificate.made:
        only_here = "; phones cannot reach it: --host 0.0.0.0 lets them" if is_loopback(host) else ""
        return (
            "The certificate was made by Parley itself, so a browser warns of it the first time: choose Advanced, "
            f"then Continue (Safari: Show Details, then visit this website){only_here}."
        )
    if certificate.expired:
        return (
            f"{certificate.path} (server.certificate) expired on {certificate.expires:%Y-%m-%d}, and browsers will "
            "warn of it: have it renewed, then start again."
        )
    return f"The certificate is for {', '.join(certificate.names)}; by other names browsers will warn of it."


def lan_address() -> str | None:
    """The address that other machines would use. Connecting a datagram socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # TEST-NET-1 (RFC 5737): chosen only to ask for the route
            return str(probe.getsockname()[0])
        except OSError:
            return None


class _Server(uvicorn.Server):
    """uvicorn, telling when it listens, and leaving signals to ``serve``.

    It would re-raise a caught signal after its shutdown, and so kill the process before the stages are closed.
    """

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        letting_go = asyncio.create_task(self._let_go())
        try:
            await super().shutdown(sockets)
        finally:
            letting_go.cancel()

    async def _let_go(self) -> None:
        """Drop connections on which all is said. TLS would wait 30 s for the other end to say goodbye too, which an
        idle one does not."""
        while True:
            await asyncio.sleep(_GOODBYE_S)
            for connection in list(self.server_state.connections):
                transport = connection.transport
                if transport is not None and transport.is_closing() and not transport.get_write_buffer_size():
                    transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    app: ASGIApp,
    sock: socket.socket,
    *,
    certificate: Certificate | None = None,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGINT or SIGTERM (a second one stops waiting), or until cancelled; then shut down in order.

    With a ``certificate`` https; raises ConfigError when it cannot be used.
    """
    context = certificate.context() if certificate is not None else None
    requests = Ending(app)
    config = uvicorn.Config(
        requests,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=_HTTP_GRACE_S,
        timeout_keep_alive=30,
        ws=BoundedWebSocket,
        ws_max_size=MESSAGE_LIMIT,
        ws_per_message_deflate=False,
        h11_max_incomplete_event_size=32 * 1024,
        ssl_context_factory=(lambda config, default: context) if context is not None else None,
    )
    server = _Server(config, on_ready)

    loop = asyncio.get_running_loop()

    def stop() -> None:
        if server.should_exit:
            requests.end()
        else:
            server.should_exit = True
            loop.call_later(_REQUEST_GRACE_S, requests.end)

    handled: list[signal.Signals] = []
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(signal_number, stop)
            handled.append(signal_number)
    serving = asyncio.create_task(server.serve(sockets=[sock]), name="http")
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        stop()
        await asyncio.wait([serving])
        raise
    finally:
        for signal_number in handled:
            loop.remove_signal_handler(signal_number)
