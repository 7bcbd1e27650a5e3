"""Thinking, seen from the client side: a stream of text for a session's turn."""

from app.llm.base import (
    ChatMessage,
    Finished,
    GenerateRequest,
    LanguageModel,
    LlmEvent,
    Priority,
    Sampling,
    TextDelta,
    TokenLogprob,
    ToolCall,
    Usage,
)

__all__ = [
    "ChatMessage",
    "Finished",
    "GenerateRequest",
    "LanguageModel",
    "LlmEvent",
    "Priority",
    "Sampling",
    "TextDelta",
    "TokenLogprob",
    "ToolCall",
    "Usage",
]
