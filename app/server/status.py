"""What the server says of itself: ``/healthz``, ``/readyz``, ``/metrics``, ``/config.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.config.settings import Settings
from app.dialogue.ports import SessionHost
from app.server.access import Access
from app.telemetry.metrics import CONTENT_TYPE, Metrics
from app.transports.ice import ice_server

_NO_STORE = {"cache-control": "no-store"}


class Status:
    """The four endpoints."""

    def __init__(
        self,
        settings: Settings,
        host: SessionHost | None,
        access: Access,
        metrics: Metrics,
        stages_ready: Callable[[], Mapping[str, bool]],
    ) -> None:
        self._settings = settings
        self._host = host
        self._access = access
        self._metrics = metrics
        self._stages_ready = stages_ready

    async def healthz(self, request: Request) -> Response:
        """The process answers."""
        return JSONResponse({"status": "ok"}, headers=_NO_STORE)

    async def readyz(self, request: Request) -> Response:
        """Every stage is loaded and warm; 503 while one is not (such as an LLM worker being restarted)."""
        stages = dict(self._stages_ready())
        ready = all(stages.values())
        body = {"status": "ready" if ready else "not_ready", "stages": stages}
        return JSONResponse(body, 200 if ready else 503, headers=_NO_STORE)

    async def metrics(self, request: Request) -> Response:
        if self._host is not None:
            self._metrics.sessions_active.set(self._host.active)
        await self._metrics.refresh()
        return Response(self._metrics.render(), media_type=CONTENT_TYPE, headers=_NO_STORE)

    async def config(self, request: Request) -> Response:
        """What the page must know; without a valid token only that one is needed."""
        body: dict[str, object] = {"token_required": bool(self._access.token)}
        body["token_accepted"] = self._access.accepts_token(request.headers.get("authorization"))
        if body["token_accepted"]:
            settings = self._settings
            body |= {
                "ice_servers": [ice_server(entry).for_browser() for entry in settings.server.ice_servers],
                "connect_timeout_s": settings.server.connect_timeout_s,
                "language": settings.assistant.language,
                "models": {
                    "asr": settings.asr.model,
                    "llm": settings.llm.model,
                    "tts": settings.tts.model or settings.tts.backend,
                },
            }
        return JSONResponse(body, headers=_NO_STORE)
