"""``python -m app serve``: the web server with its page and its API."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence

from rich.console import Console
from starlette.types import ASGIApp

from app.config import ServerSettings, Settings, settings_folder
from app.llm import LanguageModel
from app.llm.exposition import WorkerMetrics
from app.llm.local import LocalLanguageModel
from app.server import (
    Access,
    Certificate,
    Choices,
    MeteredHost,
    addresses,
    advice,
    bind,
    create_app,
    find_certificate,
    is_loopback,
    serve,
)
from app.server.qr import qr_code
from app.telemetry.log import configure as configure_log
from app.telemetry.metrics import Metrics
from app.telemetry.stage import StageReport
from app.transports.webrtc import WebRtcCalls
from app.wiring import OnReport, build, build_language_model

HELP = "serve the page, its calls and the OpenAI-compatible API"
EXAMPLES = """examples:
  python -m app serve                                  the page for this machine: http://127.0.0.1:8080/
  python -m app serve --https                          for phones and others too, with a QR code to scan (docs/phone.md)
  python -m app serve --https --host 192.168.1.20      on one of this machine's addresses only
  python -m app serve --https --set server.certificate=fullchain.pem --set server.private_key=privkey.pem
  python -m app serve --host 0.0.0.0 --port 9000       plain http, to stand behind an https proxy
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags; they override config.toml and the environment."""
    parser.add_argument("--host", help="address to listen on (server.host); any but loopback wants a token")
    parser.add_argument("--port", type=int, help="port to listen on (server.port)")
    parser.add_argument(
        "--https",
        action=argparse.BooleanOptionalAction,
        help="https, which browsers want for the microphone on other machines (server.https); makes a certificate "
        "where none is set, and listens on every address where none is named",
    )
    parser.add_argument(
        "--api-only", action="store_true", help="load the language model alone and serve /v1, without page and calls"
    )


def overrides(args: argparse.Namespace) -> Mapping[str, str | int | bool]:
    """What the flags say, as settings keys."""
    given = {"server.host": args.host, "server.port": args.port, "server.https": args.https}
    return {key: value for key, value in given.items() if value is not None}


def run(settings: Settings, args: argparse.Namespace | None = None) -> int:
    """Load, serve until Ctrl-C, and return the exit status. Raises ConfigError, ModelError, StageError."""
    configure_log(settings.runtime.log_level)
    api_only = args is not None and args.api_only
    # The port is taken first: that it is in use should not be learnt after a minute of loading.
    with bind(settings.server.address, settings.server.port) as sock:
        certificate = _certificate(settings.server, args) if settings.server.https else None
        try:
            asyncio.run(_serve(settings, sock, certificate, StartUp(Console()), api_only=api_only))
        # While the stages are loading; later both signals lead to an orderly shutdown.
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        except asyncio.CancelledError:
            return 128 + signal.SIGTERM
    return 0


def _certificate(server: ServerSettings, args: argparse.Namespace | None) -> Certificate:
    certificate = find_certificate(server, settings_folder(getattr(args, "config", None)))
    certificate.context()  # what cannot be used is told now, too
    return certificate


async def _serve(
    settings: Settings, sock: socket.socket, certificate: Certificate | None, start_up: StartUp, *, api_only: bool
) -> None:
    access = Access.from_settings(settings.server)
    start_up.begin()
    loading = asyncio.current_task()
    with contextlib.suppress(NotImplementedError):  # Windows has no SIGTERM to wait for
        # Without this the signal would end the process at once and leave the LLM worker behind.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: loading and loading.cancel())
    assemble = _api if api_only else _everything
    async with assemble(settings, access, start_up.stage) as app:
        hint = _for_clients(settings, access, certificate) if api_only else advice(sock, certificate)
        urls = _addresses(sock, access, certificate, api_only=api_only)
        phone = urls[-1] if certificate is not None and not api_only and not is_loopback(sock.getsockname()[0]) else ""
        fingerprint = certificate.fingerprint if certificate is not None else ""

        def on_ready() -> None:
            start_up.ready(urls, hint, phone=phone, fingerprint=fingerprint)

        await serve(app, sock, certificate=certificate, on_ready=on_ready)
        start_up.end("requests" if api_only else "calls and requests")
        _ignore_signals()


def _ignore_signals() -> None:
    """The stages end within seconds by themselves; an interrupt in between would leave half of them behind."""
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, lambda: None)


@contextlib.asynccontextmanager
async def _everything(settings: Settings, access: Access, on_report: OnReport) -> AsyncIterator[ASGIApp]:
    async with build(settings, on_report=on_report) as parley:
        metrics = _metrics(parley.stages.llm)
        host = MeteredHost(parley.host, metrics)
        yield create_app(
            settings,
            host,
            WebRtcCalls(host, settings.server),
            llm=parley.stages.llm,
            access=access,
            metrics=metrics,
            stages_ready=lambda: _readiness(parley.stages.llm, parley.reports),
            choices=Choices.of(parley.stages),
            turns=parley.host.turns,
        )


@contextlib.asynccontextmanager
async def _api(settings: Settings, access: Access, on_report: OnReport) -> AsyncIterator[ASGIApp]:
    async with build_language_model(settings, on_report=on_report) as thinking:
        yield create_app(
            settings,
            llm=thinking.llm,
            access=access,
            metrics=_metrics(thinking.llm),
            stages_ready=lambda: _readiness(thinking.llm, thinking.reports),
        )


def _metrics(llm: LanguageModel) -> Metrics:
    """With the figures of the worker, if the model runs in one."""
    metrics = Metrics()
    if isinstance(llm, LocalLanguageModel):
        metrics.add(WorkerMetrics(llm))
    return metrics


def _readiness(llm: LanguageModel, reports: Sequence[StageReport]) -> dict[str, bool]:
    """A stage that is loaded stays ready, but for the worker, which may be on its way up again."""
    return {report.stage: report.stage != "LLM" or getattr(llm, "ready", True) for report in reports}


def _for_clients(settings: Settings, access: Access, certificate: Certificate | None = None) -> str:
    """What was made for this run, and clients must know: without a page there is no address that carries the token."""
    lines = []
    if access.token and not settings.server.token:
        lines.append(f"Its key, made for this run: {access.token}")
    if certificate is not None and certificate.made:
        lines.append(f"Clients must be told to trust {certificate.path} (most take it from SSL_CERT_FILE).")
    return "\n".join(lines)


def _addresses(
    sock: socket.socket, access: Access, certificate: Certificate | None = None, *, api_only: bool
) -> tuple[str, ...]:
    """Without a page there is nothing to open in a browser: what clients want is the base URL."""
    urls = addresses(sock, access, certificate)
    return tuple(f"{url.partition('#')[0]}v1" for url in urls) if api_only else urls


class StartUp:
    """Tells how the start goes: a line per stage as it becomes ready, then where to go."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._memory_mb = 0.0

    def begin(self) -> None:
        self._line("[dim]Loading and warming up the stages…[/]")

    def stage(self, report: StageReport) -> None:
        self._memory_mb += report.memory_mb
        detail = report.detail.replace("[", r"\[")
        self._line(
            f"[green]✓[/] [bold]{report.stage:<5}[/] [dim]load[/] {report.load_s:5.1f} s  "
            f"[dim]warm-up[/] {report.warm_up_s:4.1f} s  [dim]memory[/] {report.memory_mb:5.0f} MiB  {detail}"
        )

    def ready(self, urls: tuple[str, ...], hint: str, *, phone: str = "", fingerprint: str = "") -> None:
        """``phone`` is the address that a phone's camera should see, if any; ``fingerprint`` the certificate's."""
        took_s = time.monotonic() - self._began
        self._line(f"[dim]Ready in {took_s:.1f} s, {self._memory_mb:.0f} MiB[/]")
        self._line(f"[bold]Parley is ready:[/] [bold cyan]{urls[0]}[/]")
        for url in urls[1:]:
            self._line(f"                 [cyan]{url}[/]")
        if phone and (code := qr_code(phone, self._console)):
            self._line("[dim]For a phone in the same network, to scan with its camera:[/]")
            self._console.print(code)
        if fingerprint:
            self._line(f"[dim]The certificate's fingerprint (SHA-256):[/]\n  {fingerprint}")
        if hint:
            self._line(f"[yellow]{hint}[/]")
        self._line("[dim]Ctrl-C ends it.[/]")

    def end(self, what: str) -> None:
        self._line(f"[dim]All {what} are ended.[/]")

    def _line(self, text: str) -> None:
        # Soft wrap: an address broken over two lines cannot be clicked, nor a log searched.
        self._console.print(text, soft_wrap=True, highlight=False)
