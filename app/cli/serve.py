"""``python -m app serve``: the web server with its page."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import socket
import time
from collections.abc import Mapping

from rich.console import Console

from app.config import Settings
from app.server import Access, MeteredHost, addresses, advice, bind, create_app, serve
from app.telemetry.log import configure as configure_log
from app.telemetry.metrics import Metrics
from app.telemetry.stage import StageReport
from app.transports.webrtc import WebRtcCalls
from app.wiring import build

HELP = "serve the page and its calls"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags; they override config.toml and the environment."""
    parser.add_argument("--host", help="address to listen on (server.host); any but loopback wants a token")
    parser.add_argument("--port", type=int, help="port to listen on (server.port)")


def overrides(args: argparse.Namespace) -> Mapping[str, str | int]:
    """What the flags say, as settings keys."""
    given = {"server.host": args.host, "server.port": args.port}
    return {key: value for key, value in given.items() if value is not None}


def run(settings: Settings) -> int:
    """Load, serve until Ctrl-C, and return the exit status. Raises ConfigError, ModelError, StageError."""
    configure_log(settings.runtime.log_level)
    # The port is taken first: that it is in use should not be learnt after a minute of loading.
    with bind(settings.server.host, settings.server.port) as sock:
        try:
            asyncio.run(_serve(settings, sock, StartUp(Console())))
        # While the stages are loading; later both signals lead to an orderly shutdown.
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        except asyncio.CancelledError:
            return 128 + signal.SIGTERM
    return 0


async def _serve(settings: Settings, sock: socket.socket, start_up: StartUp) -> None:
    access = Access.from_settings(settings.server)
    metrics = Metrics()
    start_up.begin()
    loading = asyncio.current_task()
    with contextlib.suppress(NotImplementedError):  # Windows has no SIGTERM to wait for
        # Without this the signal would end the process at once and leave the LLM worker behind.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: loading and loading.cancel())
    async with build(settings, on_report=start_up.stage) as parley:
        host = MeteredHost(parley.host, metrics)
        calls = WebRtcCalls(host, settings.server)
        app = create_app(
            settings,
            host,
            calls,
            access=access,
            metrics=metrics,
            stages_ready=lambda: {
                report.stage: report.stage != "LLM" or getattr(parley.stages.llm, "ready", True)
                for report in parley.reports
            },
        )
        await serve(app, sock, on_ready=lambda: start_up.ready(addresses(sock, access), advice(sock)))
        start_up.end()


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

    def ready(self, urls: tuple[str, ...], hint: str) -> None:
        took_s = time.monotonic() - self._began
        self._line(f"[dim]Stages ready in {took_s:.1f} s, {self._memory_mb:.0f} MiB[/]")
        self._line(f"[bold]Parley is ready:[/] [bold cyan]{urls[0]}[/]")
        for url in urls[1:]:
            self._line(f"                 [cyan]{url}[/]")
        if hint:
            self._line(f"[yellow]{hint}[/]")
        self._line("[dim]Ctrl-C ends it.[/]")

    def end(self) -> None:
        self._line("[dim]All calls are ended.[/]")

    def _line(self, text: str) -> None:
        # Soft wrap: an address broken over two lines cannot be clicked, nor a log searched.
        self._console.print(text, soft_wrap=True, highlight=False)
