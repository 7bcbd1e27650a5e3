"""``POST /offer`` opens a call, ``DELETE /calls/{id}`` ends it, with ``?leave=1`` for the time being."""

from __future__ import annotations

import logging

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from app.errors import InvalidRequest, ParleyError
from app.server.body import read_json_body
from app.server.calls import CallService
from app.server.replies import error_response, from_parley_error
from app.telemetry.log import log_event
from app.telemetry.metrics import Metrics
from app.transports.events import parse
from app.transports.start import Start, read_start

_log = logging.getLogger("parley.server")

BODY_LIMIT = 64 * 1024
"""Bytes. A browser's audio offer has 2-6 KiB; every candidate adds about 100 bytes."""
_BODY_TIMEOUT_S = 10.0
_OFFERS_AT_ONCE = 16
"""Offers being answered; each costs a key pair and ICE gathering, so a burst is told to come back."""


class Signalling:
    """The two endpoints, over a CallService."""

    def __init__(self, calls: CallService, metrics: Metrics) -> None:
        self._calls = calls
        self._metrics = metrics
        self._answering = 0

    async def offer(self, request: Request) -> Response:
        if self._answering >= _OFFERS_AT_ONCE:
            self._metrics.refused.labels("too_many_offers").inc()
            return error_response(
                429, "too_many_offers", "Too many calls are being set up at once; try again.", retry_after_s=1
            )
        self._answering += 1
        try:
            sdp, kind, start = _parse_offer(await _read_body(request))
            answer = await self._calls.offer(sdp, kind, start)
        except ParleyError as error:
            self._metrics.refused.labels(error.code).inc()
            log_event(_log, "offer_refused", code=error.code, reason=str(error))
            return from_parley_error(error)
        finally:
            self._answering -= 1
        body = {"sdp": answer.sdp, "type": answer.type, "call_id": answer.call_id}
        return JSONResponse(body, headers={"cache-control": "no-store"})

    async def hang_up(self, request: Request) -> Response:
        """Idempotent, so that a page that leaves need not know whether the server ended the call first."""
        leave = request.query_params.get("leave", "") not in ("", "0")
        await self._calls.hang_up(request.path_params["call_id"], leave=leave)
        return Response(status_code=204)


async def _read_body(request: Request) -> bytes:
    try:
        return await read_json_body(request, limit=BODY_LIMIT, timeout_s=_BODY_TIMEOUT_S)
    except ClientDisconnect:
        raise InvalidRequest("The client went away before its offer was complete.") from None


def _parse_offer(body: bytes) -> tuple[str, str, Start]:
    try:
        offer = parse(body)
    except ValueError:
        raise InvalidRequest("The offer is not valid JSON; send {sdp, type, session?, resume?}.") from None
    if not isinstance(offer, dict):
        raise InvalidRequest("The offer must be a JSON object with sdp and type.")
    sdp, kind = offer.get("sdp"), offer.get("type")
    if kind != "offer":
        raise InvalidRequest('The field type must be "offer".')
    if not isinstance(sdp, str) or not sdp.startswith("v=0"):
        raise InvalidRequest("The field sdp must be a session description (RFC 8866), which begins with v=0.")
    return sdp, kind, read_start(offer)
