"""``DELETE /sessions``: its client will not come back for a session that waits."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.dialogue.ports import SessionHost
from app.server.turns import TOKEN_HEADER


class Sessions:
    """The endpoint. A session is found by its resume token only."""

    def __init__(self, host: SessionHost) -> None:
        self._host = host

    @property
    def routes(self) -> list[Route]:
        return [Route("/sessions", self.end, methods=["DELETE"])]

    async def end(self, request: Request) -> Response:
        """Idempotent: a token that opens nothing (any more) is answered alike, and tells nobody which there are."""
        await self._host.end(request.headers.get(TOKEN_HEADER, ""))
        return Response(status_code=204)
