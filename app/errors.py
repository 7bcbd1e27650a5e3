"""Every error that Parley raises on purpose.

A message names the key, file, limit or host concerned, and the remedy. Transports turn an
error into a spoken line or a typed event by its ``code``; nothing else inspects messages.
"""

from __future__ import annotations


class ParleyError(Exception):
    """Base of all deliberate errors. ``code`` is stable and safe to show to a client."""

    code: str = "internal_error"


class ConfigError(ParleyError):
    """A key in config.toml, the environment or a flag is unknown or has a wrong value."""

    code = "config_error"


class ModelError(ParleyError):
    """A model is unknown, incomplete, corrupt, or cannot be fetched or loaded."""

    code = "model_error"


class StageError(ParleyError):
    """A stage (ASR, LLM, TTS, turn model) failed on one piece of work and can go on with others."""

    code = "stage_failed"


class StageTimeout(StageError):
    """A stage did not answer within its deadline."""

    code = "stage_timeout"


class StageUnavailable(StageError):
    """A stage's process or server is down (being restarted, unreachable, refusing connections).

    ``retry_after_s`` says when trying again makes sense, as far as that is known.
    """

    code = "stage_unavailable"

    def __init__(self, message: str, *, retry_after_s: float = 2.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Overloaded(StageError):
    """A bounded queue is full. ``retry_after_s`` says when trying again makes sense."""

    code = "overloaded"

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ContextOverflow(StageError):
    """A prompt plus its reply cannot fit the model's context or the KV pool."""

    code = "context_length_exceeded"


class InvalidRequest(ParleyError):
    """The caller sent something malformed or out of range. ``param`` names the field, where one is to blame."""

    code = "invalid_request"

    def __init__(self, message: str, *, param: str = "") -> None:
        super().__init__(message)
        self.param = param


class ResumeExpired(ParleyError):
    """The session that a client wants to take up again is not there (any more)."""

    code = "resume_expired"


class SessionLimit(ParleyError):
    """The server already holds as many sessions as ``server.max_sessions`` allows."""

    code = "session_limit"


class TurnNotKept(ParleyError):
    """A turn that is to be saved is unknown, has left the memory, or was never kept."""

    code = "turn_not_kept"
