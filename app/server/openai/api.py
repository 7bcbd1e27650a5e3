"""The endpoints: ``/v1/models``, ``/v1/chat/completions``, ``/v1/completions``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from app.config.settings import LlmSettings
from app.errors import StageUnavailable
from app.llm import LanguageModel
from app.server.body import read_json_body
from app.server.openai.errors import ApiError, api_error
from app.server.openai.metrics import ApiMetrics
from app.server.openai.models import served_names
from app.server.openai.parse import Job, chat_job, completion_job, tenant_of
from app.server.openai.reply import CLIENT_GONE, Reply
from app.server.openai.shapes import ChatShape, CompletionShape
from app.telemetry.metrics import Metrics

BODY_LIMIT = 2 * 1024 * 1024
"""Bytes; some ten times what fits the context of common models."""
_BODY_TIMEOUT_S = 30.0
_LARGE_BODY = 64 * 1024
"""Bytes; reading a larger one takes more than a millisecond or two, for which nobody else's tokens should wait."""

Parse = Callable[[bytes, str, str | None, int], Job]
MakeShape = type[ChatShape] | type[CompletionShape]


class OpenAIApi:
    """Serves one LanguageModel, whichever backend it is."""

    def __init__(self, llm: LanguageModel, settings: LlmSettings, metrics: Metrics) -> None:
        self._llm = llm
        self._names = served_names(settings)
        self._most_open = settings.max_running + settings.max_waiting
        self._metrics = ApiMetrics(metrics)
        self._open = 0
        # One thread of its own: its queue is bounded by the number of open requests, and it holds up nobody else's work.
        self._parsing = ThreadPoolExecutor(1, "api-parse")
        self._created = int(time.time())

    @property
    def routes(self) -> list[BaseRoute]:
        """Relative to /v1."""
        return [
            Route("/models", self._list_models),
            Route("/models/{model:path}", self._show_model),
            Route("/chat/completions", self._chat, methods=["POST"]),
            Route("/completions", self._complete, methods=["POST"]),
        ]

    async def _list_models(self, request: Request) -> Response:
        self._metrics.requests.labels("models", "200").inc()
        return _json({"object": "list", "data": [self._model(self._names[0])]})

    async def _show_model(self, request: Request) -> Response:
        try:
            name = self._known(request.path_params["model"])
        except ApiError as error:
            return self._refuse("models", error)
        self._metrics.requests.labels("models", "200").inc()
        return _json(self._model(name))

    async def _chat(self, request: Request) -> Response:
        return await self._reply("chat", request, chat_job, ChatShape)

    async def _complete(self, request: Request) -> Response:
        return await self._reply("completions", request, completion_job, CompletionShape)

    async def _reply(self, route: str, request: Request, parse: Parse, make_shape: MakeShape) -> Response:
        if not getattr(self._llm, "ready", True):
            # A worker on its way up again: a program had better ask again than wait without knowing.
            retry_s = getattr(self._llm, "ready_in_s", 2.0)
            told = "The language model is being started again."
            return self._refuse(route, api_error(StageUnavailable(told, retry_after_s=retry_s)))
        if self._open >= self._most_open:
            # Before its body is read: what waits here is bounded, too.
            message = f"{self._open} requests are being answered (llm.max_running + llm.max_waiting): try again later"
            return self._refuse(route, ApiError(429, message, code="overloaded", retry_after_s=1.0))
        self._opened(1)
        try:
            body = await read_json_body(request, limit=BODY_LIMIT, timeout_s=_BODY_TIMEOUT_S)
            tenant = tenant_of(request.headers.get("authorization"))
            session = request.headers.get("x-session-id")
            job = await self._parsed(parse, body, tenant, session)
            shape = make_shape(self._known(job.model), include_usage=job.include_usage)
        except BaseException as error:
            self._opened(-1)
            if isinstance(error, HTTPException):
                return self._refuse(route, from_http(error))
            if isinstance(error, ClientDisconnect):
                self._metrics.requests.labels(route, str(CLIENT_GONE)).inc()
                return Response(status_code=400)
            if isinstance(error, Exception):
                return self._refuse(route, api_error(error))
            raise

        def ended(status: int) -> None:
            self._opened(-1)
            self._metrics.requests.labels(route, str(status)).inc()

        events = self._llm.generate(job.request)
        return Reply(events, shape, stream=job.stream, one_call=job.one_call, on_end=ended)

    async def _parsed(self, parse: Parse, body: bytes, tenant: str, session: str | None) -> Job:
        context_tokens = self._llm.context_tokens
        if len(body) <= _LARGE_BODY:
            return parse(body, tenant, session, context_tokens)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._parsing, parse, body, tenant, session, context_tokens)

    def _opened(self, by: int) -> None:
        self._open += by
        self._metrics.open.set(self._open)

    def _known(self, name: str) -> str:
        """The name that is listed. Raises ApiError (404) for a model that is not served."""
        if name not in self._names:
            raise ApiError(
                404,
                f'The model "{name}" is not served here; this server has "{self._names[0]}".',
                code="model_not_found",
                param="model",
            )
        return self._names[0]

    def _model(self, name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": "parley"}

    def _refuse(self, route: str, error: ApiError) -> Response:
        self._metrics.requests.labels(route, str(error.status)).inc()
        return error.response()


def from_http(error: HTTPException) -> ApiError:
    """A refusal that Starlette's routing or the reading of the body raised."""
    codes = {
        404: "unknown_url",
        405: "method_not_allowed",
        408: "timeout",
        413: "request_too_large",
        415: "unsupported_media_type",
    }
    message = str(error.detail)
    if error.status_code == 404:
        message = "There is no such address here; /v1 has models, chat/completions and completions."
    return ApiError(error.status_code, message, code=codes.get(error.status_code))


def _json(body: object) -> Response:
    return Response(msgspec.json.encode(body), 200, {"cache-control": "no-store"}, "application/json")
