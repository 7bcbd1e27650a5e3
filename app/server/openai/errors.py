"""Errors in OpenAI's shape: ``{"error": {"message", "type", "param", "code"}}`` with the status its clients expect."""

from __future__ import annotations

import math

import msgspec
from starlette.responses import Response

from app.errors import ContextOverflow, InvalidRequest, Overloaded, ParleyError, StageTimeout, StageUnavailable


class ApiError(ParleyError):
    """A refusal as the API words it; ``param`` names the field of the request that is to blame."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = code
        self.param = param
        self.retry_after_s = retry_after_s

    @property
    def body(self) -> bytes:
        """The JSON object, for a response or for one event of a stream that has begun."""
        error = {
            "message": str(self),
            "type": _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error"),
            "param": self.param,
            "code": self.error_code,
        }
        return msgspec.json.encode({"error": error})

    def response(self, headers: dict[str, str] | None = None) -> Response:
        all_headers = {"cache-control": "no-store", **(headers or {})}
        if self.retry_after_s is not None:
            all_headers["retry-after"] = str(max(1, math.ceil(self.retry_after_s)))
        return Response(self.body, self.status, all_headers, "application/json")


_TYPES = {429: "rate_limit_error"}
_FIELDS = {"json_schema": "response_format"}
"""What the engine's fields are called in a request, where it has another name for them."""


def unsupported(param: str, instead: str) -> ApiError:
    """A feature that OpenAI has and Parley has not."""
    return ApiError(400, f"{param} is not supported here: {instead}", param=param, code="unsupported_parameter")


def invalid(param: str, message: str) -> ApiError:
    return ApiError(400, f"{param}: {message}", param=param, code="invalid_value")


def api_error(error: Exception, input_param: str = "messages") -> ApiError:
    """What a client is told of any failure; one that is not ours tells nothing of its inside.

    ``input_param`` is the field that holds the prompt, which is what may be too long.
    """
    message = str(error)
    match error:
        case ApiError():
            return error
        case ContextOverflow():
            return ApiError(400, message, code=error.code, param=input_param)
        case InvalidRequest():
            return ApiError(400, message, code=error.code, param=_FIELDS.get(error.param, error.param) or None)
        case Overloaded():
            return ApiError(429, message, code=error.code, retry_after_s=error.retry_after_s)
        case StageUnavailable():
            return ApiError(503, message, code=error.code, retry_after_s=error.retry_after_s)
        case StageTimeout():
            return ApiError(504, message, code="timeout")
        case ParleyError():
            return ApiError(500, message, code=error.code)
        case _:
            return ApiError(500, "The server failed to handle this request; its log says why.", code="internal_error")


def shutting_down() -> ApiError:
    return ApiError(503, "The server is shutting down: try again in a moment.", code="shutting_down", retry_after_s=5.0)
