"""The OpenAI-compatible API: its requests read, its replies streamed, its errors in the shape that its clients know."""

from app.server.openai.api import OpenAIApi, from_http
from app.server.openai.errors import ApiError, api_error

__all__ = ["ApiError", "OpenAIApi", "api_error", "from_http"]
