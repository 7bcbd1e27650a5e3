"""What one session may have of its own: voice, language, manner of taking turns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from app.config import Settings
from app.errors import InvalidRequest

TurnDetection: TypeAlias = Literal["auto", "manual"]
_SPEEDS = (0.5, 2.0)
_MAX_INSTRUCTIONS_CHARS = 8000
_WHISPER_CODE_LENGTHS = (2, 3)


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Empty and None are what the settings say."""

    instructions: str | None = None
    """The system prompt."""
    voice: str = ""
    speed: float | None = None
    language: str = ""
    """Spoken by the user: ISO 639-1, or "auto"."""
    turn_detection: TurnDetection = "auto"
    """"manual": a turn ends when the client says so, not at a pause."""
    spoken: bool = True
    """False: replies are shown and not heard."""

    def described(self, settings: Settings, default_voice: str) -> dict[str, Any]:
        """As ``session.created`` and ``session.updated`` tell it."""
        return {
            "model": settings.llm.model,
            "voice": self.voice or default_voice,
            "speed": self.speed or settings.tts.speed,
            "language": self.language or settings.assistant.language,
            "turn_detection": {"type": "semantic_vad"} if self.turn_detection == "auto" else None,
            "output_modalities": ["audio"] if self.spoken else ["text"],
        }


def parse_options(
    given: Any,
    settings: Settings,
    voices: Collection[str],
    before: SessionOptions | None = None,
    *,
    languages: Collection[str] = (),
) -> SessionOptions:
    """``before`` changed as a session object in the shape of OpenAI's Realtime API (GA) asks.

    ``languages`` are those that may be spoken to it, with that of the settings; none: any.
    Raises InvalidRequest naming the key; nothing is taken over then.
    """
    options = before or SessionOptions()
    session = _object(given, "session", {"type", "instructions", "output_modalities", "audio"})
    if session.get("type", "realtime") != "realtime":
        raise InvalidRequest('session.type must be "realtime".')
    if "instructions" in session:
        options = replace(options, instructions=_instructions(session["instructions"], settings))
    if "output_modalities" in session:
        options = replace(options, spoken=spoken_modality(session["output_modalities"], "session.output_modalities"))
    audio = _object(session.get("audio", {}), "session.audio", {"input", "output"})
    sound_in = _object(audio.get("input", {}), "session.audio.input", {"turn_detection", "transcription"})
    if "turn_detection" in sound_in:
        options = replace(options, turn_detection=_turn_detection(sound_in["turn_detection"]))
    if "transcription" in sound_in:
        known = {*languages, settings.assistant.language} if languages else ()
        options = replace(options, language=_language(sound_in["transcription"], known))
    sound_out = _object(audio.get("output", {}), "session.audio.output", {"voice", "speed"})
    if "voice" in sound_out:
        options = replace(options, voice=_voice(sound_out["voice"], voices))
    if "speed" in sound_out:
        options = replace(options, speed=_speed(sound_out["speed"]))
    return options


def spoken_modality(given: Any, key: str) -> bool:
    """Whether replies are to be heard. Raises InvalidRequest."""
    if given not in (["audio"], ["text"]):
        raise InvalidRequest(f'{key} must be ["audio"] or ["text"].')
    return bool(given == ["audio"])


def _object(given: Any, key: str, known: Collection[str]) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise InvalidRequest(f"{key} must be an object.")
    for name in given:
        if name not in known:
            raise InvalidRequest(f"{key}.{str(name)[:80]} is unknown; known are {', '.join(sorted(known))}.")
    return given


def _instructions(given: Any, settings: Settings) -> str | None:
    if given is None:
        return None
    if not settings.server.client_instructions:
        raise InvalidRequest("session.instructions: this server keeps its own (server.client_instructions = false).")
    if not isinstance(given, str) or len(given) > _MAX_INSTRUCTIONS_CHARS:
        raise InvalidRequest(f"session.instructions must be text of at most {_MAX_INSTRUCTIONS_CHARS} characters.")
    return given.encode("utf-8", "replace").decode().strip()


def _turn_detection(given: Any) -> TurnDetection:
    if given is None:
        return "manual"
    kind = given.get("type") if isinstance(given, dict) else None
    if kind not in ("semantic_vad", "server_vad"):
        raise InvalidRequest('session.audio.input.turn_detection must be {"type": "semantic_vad"}, or null.')
    return "auto"


def _language(given: Any, known: Collection[str]) -> str:
    transcription = _object(given, "session.audio.input.transcription", {"language", "model", "prompt"})
    language = transcription.get("language", "")
    if language in (None, "", "auto"):
        return language or ""
    key = "session.audio.input.transcription.language"
    letters = isinstance(language, str) and language.isascii() and language.isalpha()
    if not letters or len(language) not in _WHISPER_CODE_LENGTHS:
        raise InvalidRequest(f'{key} must be a code like "en", or "auto".')
    if known and language.lower() not in known:
        raise InvalidRequest(f"{key}: not understood here; there are {', '.join(sorted(known))} (asr.languages).")
    return str(language.lower())


def _voice(given: Any, voices: Collection[str]) -> str:
    if given in (None, ""):
        return ""
    if given not in voices:
        raise InvalidRequest(f"session.audio.output.voice: unknown; there are {', '.join(voices) or 'none to choose'}.")
    return str(given)


def _speed(given: Any) -> float | None:
    if given is None:
        return None
    slowest, fastest = _SPEEDS
    if isinstance(given, bool) or not isinstance(given, int | float) or not slowest <= given <= fastest:
        raise InvalidRequest(f"session.audio.output.speed must be a number from {slowest} to {fastest}.")
    return float(given)
