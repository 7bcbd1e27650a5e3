"""The ASGI application: page, signalling, OpenAI-compatible API, health, metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute

from app.config.settings import Settings
from app.dialogue.ports import SessionHost
from app.llm import LanguageModel
from app.server.access import Access
from app.server.calls import CallService
from app.server.check import Checks
from app.server.guard import Guard
from app.server.openai import OpenAIApi, api_error, from_http
from app.server.page import WEB_ROOT, Page
from app.server.replies import error_response
from app.server.sessions import Sessions
from app.server.signalling import Signalling
from app.server.socket import SocketEndpoint, SocketService
from app.server.status import Choices, Status
from app.server.turns import Turns
from app.telemetry.log import log_event
from app.telemetry.metrics import Metrics
from app.telemetry.turns import KeptTurns
from app.transports.websocket import SocketCalls

_log = logging.getLogger("parley.server")

CLOSE_TIMEOUT_S = 3.0
"""Longest wait for calls to end at shutdown; with the HTTP grace before it, Ctrl-C takes under 5 s."""

_HTTP_CODES = {404: "not_found", 405: "method_not_allowed", 408: "timeout", 413: "too_large", 415: "wrong_media_type"}


def create_app(
    settings: Settings,
    host: SessionHost | None = None,
    calls: CallService | None = None,
    *,
    llm: LanguageModel | None = None,
    access: Access | None = None,
    metrics: Metrics | None = None,
    stages_ready: Callable[[], Mapping[str, bool]] = dict,
    turns: KeptTurns | None = None,
    choices: Choices = Choices(),  # noqa: B008 - frozen
    web_root: Path = WEB_ROOT,
) -> Starlette:
    """Assemble the server.

    ``calls`` carries the calls (None: neither page nor signalling), ``host`` opens those over WebSockets and is asked
    how many sessions are open, ``llm`` answers under /v1 (None: no API), ``stages_ready`` gives the readiness of each stage by name,
    ``turns`` are those that can be saved, ``choices`` what clients may choose from for their sessions.
    When the application shuts down all calls are ended.
    """
    access = access or Access.from_settings(settings.server)
    metrics = metrics or Metrics()
    status = Status(settings, host, access, metrics, stages_ready, choices)
    checks = Checks(settings.server, metrics)
    sockets = SocketCalls(host, settings.server) if host is not None and calls is not None else None

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        lag = asyncio.create_task(metrics.watch_loop(), name="event-loop-lag")
        try:
            yield
        finally:
            lag.cancel()
            await asyncio.wait([lag])
            await checks.close_all()
            await _close_calls(*(service for service in (calls, sockets) if service is not None))

    middleware = [Middleware(Guard, access=access)]
    if settings.server.allowed_origins:
        # Outermost, so that a refusal too can be read by the page that caused it.
        middleware.insert(
            0,
            Middleware(
                CORSMiddleware,
                allow_origins=sorted(access.allowed_origins),
                allow_methods=["GET", "POST", "DELETE"],
                # OpenAI's own client for browsers sends a dozen headers of its own.
                allow_headers=["*"],
            ),
        )
    routes: list[BaseRoute] = [
        Route("/healthz", status.healthz),
        Route("/readyz", status.readyz),
        Route("/metrics", status.metrics),
    ]
    if llm is not None:
        routes.append(Mount("/v1", routes=OpenAIApi(llm, settings.llm, metrics).routes))
    if calls is not None:
        signalling = Signalling(calls, metrics)
        routes += [
            Route("/offer", signalling.offer, methods=["POST"]),
            Route("/calls/{call_id}", signalling.hang_up, methods=["DELETE"]),
            Route("/config.json", status.config),
            *checks.routes,
            *Turns(turns or KeptTurns(0), settings).routes,
            *(Sessions(host).routes if host is not None else ()),
            Mount("/", Page(web_root), name="page"),
        ]
    if sockets is not None:
        routes.insert(0, WebSocketRoute("/call", SocketEndpoint(sockets, metrics)))
    return Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={HTTPException: _http_error, Exception: _unexpected},
        lifespan=lifespan,
    )


async def _close_calls(*services: CallService | SocketService) -> None:
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await asyncio.gather(*(service.close_all() for service in services))
    except TimeoutError:
        log_event(_log, "calls_not_closed_in_time", level=logging.WARNING, limit_s=CLOSE_TIMEOUT_S)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if _is_api(request):
        return from_http(error).response(dict(error.headers or {}))
    code = _HTTP_CODES.get(error.status_code, "http_error")
    return error_response(error.status_code, code, str(error.detail), headers=dict(error.headers or {}))


async def _unexpected(request: Request, error: Exception) -> Response:
    """The traceback is logged; the client learns only that it was not its fault."""
    log_event(_log, "request_failed", level=logging.ERROR, error=error, path=request.url.path)
    if _is_api(request):
        return api_error(error).response()
    return error_response(500, "internal_error", "The server failed to handle this request; its log says why.")


def _is_api(request: Request) -> bool:
    return request.url.path.startswith("/v1/")
