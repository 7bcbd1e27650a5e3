"""Client events as they come over the wire, checked and made into events of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from app.dialogue.events import AnswerRequested, Committed, StopRequested, TypedText
from app.dialogue.options import spoken_modality
from app.dialogue.ports import WireEvent
from app.errors import InvalidRequest

_MAX_TYPED_CHARS = 4000


@dataclass(frozen=True, slots=True)
class Ping:
    id: Any


@dataclass(frozen=True, slots=True)
class Update:
    """Other options for this session; what it holds is looked at by ``parse_options``."""

    session: Any


@dataclass(frozen=True, slots=True)
class Recording:
    """The client would like to record the call, or has ended its recording."""

    on: bool


ClientEvent: TypeAlias = TypedText | AnswerRequested | StopRequested | Committed | Update | Recording | Ping


def parse(event: WireEvent) -> ClientEvent:
    """What the client asks for. Raises InvalidRequest naming the field that is wrong."""
    match event.get("type"):
        case "conversation.item.create":
            item = event.get("item")
            return TypedText(_typed_text(item), _pinned(item))
        case "response.create":
            return AnswerRequested(_spoken(event.get("response")))
        case "response.cancel":
            return StopRequested()
        case "input_audio_buffer.commit":
            return Committed()
        case "session.update":
            return Update(event.get("session"))
        case "parley.recording":
            if not isinstance(on := event.get("on"), bool):
                raise InvalidRequest("parley.recording: on must be true or false.")
            return Recording(on)
        case "parley.ping":
            return Ping(event.get("id"))
        case other:
            raise InvalidRequest(f"Unknown event type {str(other)[:80]!r}; docs/events.md lists those that are known.")


def _spoken(response: Any) -> bool | None:
    """None: as the session has it."""
    if response is None:
        return None
    if not isinstance(response, dict):
        raise InvalidRequest("response must be an object.")
    if unknown := set(response) - {"output_modalities"}:
        raise InvalidRequest(f"response.{str(min(unknown, key=str))[:80]} is unknown; known is output_modalities.")
    given = response.get("output_modalities")
    return None if given is None else spoken_modality(given, "response.output_modalities")


def _pinned(item: Any) -> bool:
    pinned = item.get("pinned", False) if isinstance(item, dict) else False
    if not isinstance(pinned, bool):
        raise InvalidRequest("item.pinned must be true or false.")
    return pinned


def _typed_text(item: Any) -> str:
    if not isinstance(item, dict) or item.get("type") != "message" or item.get("role") != "user":
        raise InvalidRequest("item must be an object with type 'message' and role 'user'.")
    content = item.get("content")
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise InvalidRequest("item.content must be a list of parts like {type: 'input_text', text: '...'}.")
    texts = [part.get("text") for part in content if part.get("type") == "input_text"]
    if len(texts) != len(content) or not all(isinstance(text, str) for text in texts):
        raise InvalidRequest("item.content: only parts of type 'input_text' with a string text are accepted.")
    text = " ".join(texts).encode("utf-8", "replace").decode().strip()  # JSON can hold lone surrogates; UTF-8 cannot
    if not text:
        raise InvalidRequest("item.content: the text is empty.")
    if len(text) > _MAX_TYPED_CHARS:
        raise InvalidRequest(f"item.content: {len(text)} characters; at most {_MAX_TYPED_CHARS} are accepted.")
    return text
