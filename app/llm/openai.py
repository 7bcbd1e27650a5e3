"""Any server that speaks OpenAI's chat completions: llama.cpp, vLLM, Ollama, a hosted one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import httpx

from app.config.settings import LlmSettings
from app.errors import (
    ContextOverflow,
    InvalidRequest,
    ModelError,
    Overloaded,
    StageError,
    StageTimeout,
    StageUnavailable,
)
from app.llm.base import Finished, GenerateRequest, LlmEvent, Usage
from app.llm.openai_wire import StreamReader, endpoint, request_body
from app.telemetry.stage import StageReport

_CONNECT_S = 5.0
_FIRST_BACKOFF_S = 0.25
_LONGEST_BACKOFF_S = 4.0
_CONTEXT_HINTS = ("context_length_exceeded", "context length", "context size", "maximum context")


class OpenAILanguageModel:
    """Streams from ``base_url``. What fails before the first piece of text is tried again; later failures are told."""

    def __init__(self, settings: LlmSettings) -> None:
        if not settings.base_url:
            raise ModelError('llm.base_url is empty: backend "openai" needs it, for example http://127.0.0.1:11434/v1')
        self._settings = settings
        self._base_url = settings.base_url.rstrip("/")
        headers = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
        self._client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(None, connect=_CONNECT_S),
            limits=httpx.Limits(max_connections=settings.max_running),
        )
        self._open = 0

    async def load(self) -> StageReport:
        """Reach the server and see that it knows the model. Raises StageUnavailable or ModelError."""
        began = time.monotonic()
        answer = await self._models(self._base_url)
        if answer.status_code == 404 and await self._is_api(f"{self._base_url}/v1"):
            raise ModelError(
                f'llm.base_url = "{self._base_url}" is not where the server has its API: '
                f'set it to "{self._base_url}/v1", which is'
            )
        # Some servers keep no list of their models: the first request tells then.
        if answer.status_code in (401, 403):
            raise ModelError(f"{self._base_url} refuses the key: set llm.api_key")
        names = _model_names(answer)
        if names and self._settings.model not in names:
            known = ", ".join(names[:8])
            raise ModelError(f'{self._base_url} has no model "{self._settings.model}": set llm.model to one of {known}')
        detail = f"openai {self._settings.model} at {self._base_url}"
        return StageReport("LLM", detail, time.monotonic() - began, 0.0, 0.0)

    async def _models(self, base_url: str) -> httpx.Response:
        try:
            return await self._client.get(f"{base_url}/models", timeout=_CONNECT_S)
        except httpx.HTTPError as error:
            raise StageUnavailable(f"{base_url} cannot be reached ({_why(error)}): is the server up?") from error

    async def _is_api(self, base_url: str) -> bool:
        return (await self._models(base_url)).status_code in (200, 401, 403)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        if self._open >= self._settings.max_running + self._settings.max_waiting:
            raise Overloaded(f"{self._open} replies from {self._base_url} are running or waiting: try again later")
        self._open += 1
        try:
            async with aclosing(self._with_retries(request)) as events:
                async for event in events:
                    yield event
        finally:
            self._open -= 1

    @property
    def context_tokens(self) -> int:
        """As configured: servers do not tell."""
        return self._settings.context_tokens

    async def extend(self, request: GenerateRequest) -> Usage:
        """The protocol has no way to compute a prompt and draw nothing: nothing is sent."""
        return Usage(0, 0, 0)

    async def truncate(self, session_id: str, heard_tokens: int) -> None:
        """The next request's messages say what was heard."""

    async def end_session(self, session_id: str) -> None:
        """The server keeps no sessions of ours."""

    async def close(self) -> None:
        await self._client.aclose()

    async def _with_retries(self, request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        backoff_s = _FIRST_BACKOFF_S
        for left in range(self._settings.retries, -1, -1):
            started = False
            try:
                async with aclosing(self._once(request)) as events:
                    async for event in events:
                        started = True
                        yield event
                return
            except (StageUnavailable, Overloaded) as error:
                if started or not left:
                    raise
                wait_s = backoff_s
                if isinstance(error, Overloaded):
                    wait_s = max(wait_s, error.retry_after_s)
                    if wait_s > _LONGEST_BACKOFF_S:
                        raise
                await asyncio.sleep(wait_s)
                backoff_s = min(_LONGEST_BACKOFF_S, backoff_s * 2)

    async def _once(self, request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        began = time.monotonic()
        first_s: float | None = None
        stream = StreamReader()
        async with aclosing(self._chunks(request)) as chunks:
            async for chunk in chunks:
                for delta in stream.take(chunk):
                    first_s = first_s if first_s is not None else time.monotonic()
                    yield delta
        if stream.reason is None:
            raise StageUnavailable(f"{self._base_url} broke off in the middle of a reply")
        for call in stream.calls():
            yield call
        now = time.monotonic()
        first_s = first_s if first_s is not None else now
        prefill_ms, decode_ms = (first_s - began) * 1000.0, (now - first_s) * 1000.0
        yield Finished(stream.reason, stream.usage, prefill_ms=prefill_ms, decode_ms=decode_ms)

    async def _chunks(self, request: GenerateRequest) -> AsyncGenerator[dict[str, Any], None]:
        """The stream's JSON chunks, each awaited within its deadline, or all of them within the request's."""
        outgoing = self._client.build_request(
            "POST", f"{self._base_url}/{endpoint(request)}", json=request_body(self._settings.model, request)
        )
        answer: httpx.Response | None = None
        first_s, stall_s = self._settings.first_token_timeout_s, self._settings.stall_timeout_s
        over_s: float | None = None
        if request.deadline_s is not None:
            first_s = request.deadline_s
            over_s = time.monotonic() + request.deadline_s
        try:
            async with asyncio.timeout(first_s):
                answer = await self._client.send(outgoing, stream=True)
                if answer.status_code != 200:
                    raise _refusal(self._base_url, answer, await answer.aread())
            lines = answer.aiter_lines()
            limit_s = first_s
            while (
                line := await self._next_line(lines, limit_s if over_s is None else over_s - time.monotonic())
            ) is not None:
                if not line.startswith("data:"):
                    continue
                data = line.removeprefix("data:").strip()
                if data == "[DONE]":
                    return
                limit_s = stall_s
                yield self._parse(data)
        except TimeoutError:
            raise StageTimeout(
                f"{self._base_url} did not answer within {first_s:.1f} s (llm.first_token_timeout_s, or the request's own)"
            ) from None
        except httpx.HTTPError as error:
            raise StageUnavailable(f"{self._base_url} failed: {_why(error)}") from error
        finally:
            if answer is not None:
                await answer.aclose()

    async def _next_line(self, lines: AsyncIterator[str], limit_s: float) -> str | None:
        try:
            async with asyncio.timeout(limit_s):
                return await anext(lines, None)
        except TimeoutError:
            raise StageTimeout(
                f"{self._base_url} sent nothing for {limit_s:.1f} s (llm.first_token_timeout_s, llm.stall_timeout_s)"
            ) from None

    def _parse(self, data: str) -> dict[str, Any]:
        try:
            chunk = json.loads(data)
        except json.JSONDecodeError as error:
            raise StageError(f"{self._base_url} sent a chunk that is not JSON: {error}") from error
        if not isinstance(chunk, dict):
            raise StageError(f"{self._base_url} sent a chunk that is not an object")
        if "error" in chunk:
            raise StageError(f"{self._base_url} reports an error in the stream: {chunk['error']}")
        return chunk


def _refusal(base_url: str, answer: httpx.Response, body: bytes) -> Exception:
    status = answer.status_code
    text = body[:500].decode("utf-8", "replace").strip()
    if status in (429, 503):
        return Overloaded(f"{base_url} is overloaded ({status}): {text}", retry_after_s=_retry_after(answer))
    if status >= 500:
        return StageUnavailable(f"{base_url} answered {status}: {text}")
    if status in (400, 413) and any(hint in text.lower() for hint in _CONTEXT_HINTS):
        return ContextOverflow(f"{base_url} says that the conversation is too long: {text}")
    if status in (401, 403):
        return StageError(f"{base_url} refuses the key ({status}): set llm.api_key")
    if status == 404:
        ending = "" if base_url.endswith("/v1") else ", which mostly ends in /v1,"
        return StageError(
            f"{base_url} has no such model or path ({status}): check llm.base_url{ending} and llm.model: {text}"
        )
    return InvalidRequest(f"{base_url} answered {status}: {text}")


def _retry_after(answer: httpx.Response) -> float:
    try:
        return max(0.0, float(answer.headers.get("retry-after", "1")))
    except ValueError:  # a date
        return 1.0


def _model_names(answer: httpx.Response) -> list[str]:
    """Empty if the server keeps no list."""
    try:
        listed = answer.json()
        return [str(entry["id"]) for entry in listed["data"]] if answer.status_code == 200 else []
    except (ValueError, KeyError, TypeError):
        return []


def _why(error: httpx.HTTPError) -> str:
    return str(error) or type(error).__name__
