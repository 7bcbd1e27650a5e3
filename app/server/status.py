"""What the server says of itself: ``/healthz``, ``/readyz``, ``/metrics``, ``/config.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app import __version__
from app.config.settings import Settings
from app.dialogue.ports import SessionHost
from app.dialogue.stages import Stages
from app.server.access import Access
from app.telemetry.metrics import CONTENT_TYPE, Metrics
from app.transports.ice import ice_server
from app.tts.base import SPEEDS

_NO_STORE = {"cache-control": "no-store"}


@dataclass(frozen=True, slots=True)
class Choices:
    """What a client may choose from for its session."""

    voices: tuple[str, ...] = ()
    default_voice: str = ""
    speeds: tuple[float, float] = SPEEDS
    """Slowest and fastest."""
    languages: tuple[str, ...] = ()
    """ISO 639-1 codes, and "auto" where there are several."""

    @classmethod
    def of(cls, stages: Stages) -> Self:
        """Those of loaded stages."""
        tts, languages = stages.tts, stages.asr.languages
        auto = ("auto",) if len(languages) > 1 else ()
        return cls(tts.voices, tts.default_voice, tts.speeds, (*languages, *auto))


class Status:
    """The four endpoints."""

    def __init__(
        self,
        settings: Settings,
        host: SessionHost | None,
        access: Access,
        metrics: Metrics,
        stages_ready: Callable[[], Mapping[str, bool]],
        choices: Choices,
    ) -> None:
        self._settings = settings
        self._host = host
        self._access = access
        self._metrics = metrics
        self._stages_ready = stages_ready
        self._choices = choices

    async def healthz(self, request: Request) -> Response:
        """The process answers, and is Parley (``doctor`` asks what holds the port)."""
        return JSONResponse({"status": "ok", "service": "parley"}, headers=_NO_STORE)

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
            body |= self._for_clients()
        return JSONResponse(body, headers=_NO_STORE)

    def _for_clients(self) -> dict[str, object]:
        settings, choices = self._settings, self._choices
        server = settings.server
        told: dict[str, object] = {
            "version": __version__,
            "ice_servers": [ice_server(entry).for_browser() for entry in server.ice_servers],
            "connect_timeout_s": server.connect_timeout_s,
            "resume_s": server.resume_s,
            "language": settings.assistant.language,
            "languages": choices.languages,
            "voices": choices.voices,
            "default_voice": choices.default_voice,
            "speeds": choices.speeds,
            "client_instructions": server.client_instructions,
            "recording": server.recording,
            "saved_turns": server.saved_turns_mb > 0,
            "models": {
                "asr": settings.asr.model,
                "llm": settings.llm.model,
                "tts": settings.tts.model or settings.tts.backend,
            },
        }
        if server.client_instructions:  # who may not change them has no business with them
            told["instructions"] = settings.assistant.system_prompt
        return told
