"""``GET /sessions/turns/{response_id}.zip``: a turn as one file, for who was in the call."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.config import Settings
from app.errors import Overloaded, TurnNotKept
from app.server.replies import error_response, from_parley_error
from app.telemetry.turns import KeptTurns
from app.telemetry.turns.bundle import bundle
from app.telemetry.turns.config import open_settings

TOKEN_HEADER = "x-resume-token"
_ASKED_AT_ONCE = 8


class Turns:
    """The endpoint. Each turn is found by its session's resume token only, so nobody gets another's."""

    def __init__(self, kept: KeptTurns, settings: Settings) -> None:
        self._kept = kept
        self._settings = settings
        self._at_work = asyncio.Lock()
        """One file is made at a time: compressing sound takes a core from those who talk."""
        self._asked = 0

    @property
    def routes(self) -> list[Route]:
        return [Route("/sessions/turns/{response_id}.zip", self.turn)]

    async def turn(self, request: Request) -> Response:
        token, response_id = request.headers.get(TOKEN_HEADER, ""), request.path_params["response_id"]
        try:
            saved = self._kept.find(token, response_id)
        except TurnNotKept as error:
            return error_response(404, error.code, str(error))
        if self._asked >= _ASKED_AT_ONCE:
            return from_parley_error(Overloaded("Several turns are being saved; try again.", retry_after_s=2.0))
        self._asked += 1
        try:
            async with self._at_work:
                content = await asyncio.to_thread(bundle, saved, open_settings(self._settings))
        finally:
            self._asked -= 1
        # Not of its id, which other calls have too.
        when = datetime.fromtimestamp(saved.saved_at, UTC).astimezone()
        name = f"{when:parley-turn-%Y-%m-%d-%H%M%S}.zip"
        headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
        return Response(content, media_type="application/zip", headers=headers)
