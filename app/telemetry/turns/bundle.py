"""A saved turn as one zip file. Its format is told in docs/replay.md; ``app.replay`` reads it."""

from __future__ import annotations

import io
import json
import platform
import zipfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from app import __version__
from app.telemetry.turns.kept import SavedTurn
from app.telemetry.turns.tape import StageCall
from app.telemetry.turns.track import Sound

FORMAT = 1
"""Goes up when a reader of the one before would be wrong about the next."""
_PACKAGES = ("faster-whisper", "ctranslate2", "onnxruntime", "torch", "transformers", "hibari-tts", "aiortc", "livekit")
"""Those whose version may be why a turn went as it did."""


def bundle(turn: SavedTurn, settings: Mapping[str, Any]) -> bytes:
    """The zip file. Compresses sound, for up to a second: not to be called on the event loop.

    ``settings`` are without secrets already.
    """
    heard, said = turn.heard(), turn.said()
    sounds = {"in": _sound(heard, turn.began_s), "out": _sound(said, turn.began_s)}
    pieces = {"in": (heard.pcm, heard.rate_hz), "out": (said.pcm, said.rate_hz)}
    for name, stage in (("voice", "tts"), ("phrases", "phrase")):
        if calls := [call for call in turn.calls if call.stage == stage]:
            pieces[name] = (_joined(calls), calls[0].rate_hz)
            sounds[name] = {"rate_hz": calls[0].rate_hz, "samples": len(pieces[name][0])}
    members = {f"{name}.flac": _flac(pcm, rate_hz) for name, (pcm, rate_hz) in pieces.items() if len(pcm)}
    facts = {
        "format": FORMAT,
        "parley": __version__,
        "versions": _versions(),
        "saved_at": datetime.fromtimestamp(turn.saved_at, UTC).isoformat(timespec="seconds"),
        "response_id": turn.response_id,
        "done_s": _since(turn.done_s, turn),
        "missing_s": round(turn.missing_s, 3),
        "sound": sounds,
        **_told(turn),
        **turn.describe(),
    }
    members["turn.json"] = _json(facts)
    members["events.jsonl"] = b"\n".join(
        _json({"at_s": _since(note.at_s, turn), "from": note.side, "event": note.event}, indent=None)
        for note in turn.notes
    )
    members["stages.json"] = _json([_call(call, turn) for call in turn.calls])
    members["config.json"] = _json(settings)
    return _zipped(members)


def _told(turn: SavedTurn) -> dict[str, Any]:
    """What the client was told of the turn, for who only looks at turn.json."""
    facts: dict[str, Any] = {"status": None, "user": None, "reply": None, "timings_ms": {}, "spans_ms": {}}
    for event, note in ((note.event, note) for note in turn.notes if note.side == "server"):
        match event["type"]:
            case "conversation.item.input_audio_transcription.completed" if note.at_s <= turn.done_s:
                facts["user"] = event["transcript"]
            case "response.output_audio_transcript.done" | "response.output_text.done" if _is_own(event, turn):
                facts["reply"] = event.get("transcript", event.get("text"))
            case "parley.turn" if _is_own(event, turn):
                facts |= {key: event[key] for key in ("timings_ms", "spans_ms", "early", "usage") if key in event}
            case "response.done" if event["response"]["id"] == turn.response_id:
                facts["status"] = event["response"]["status"]
    return facts


def _is_own(event: Mapping[str, Any], turn: SavedTurn) -> bool:
    return bool(event.get("response_id") == turn.response_id)


def _call(call: StageCall, turn: SavedTurn) -> dict[str, Any]:
    fields = {
        "stage": call.stage,
        "at_s": _since(call.at_s, turn),
        "asked": call.asked,
        "answers": [
            [_since(at_s, turn), len(answer) if isinstance(answer, np.ndarray) else answer]
            for at_s, answer in [*call.answers]
        ],
        "ended_s": None if call.ended_s is None else _since(call.ended_s, turn),
        "ending": call.ending,
    }
    if call.error is not None:
        fields["error"] = call.error
    if call.rate_hz:
        fields["rate_hz"] = call.rate_hz
    return fields


def _sound(sound: Sound, began_s: float) -> dict[str, Any]:
    clock = [[sample, round(at_s - began_s, 4)] for sample, at_s in sound.clock]
    return {"rate_hz": sound.rate_hz, "samples": len(sound.pcm), "clock": clock}


def _since(at_s: float, turn: SavedTurn) -> float:
    return round(at_s - turn.began_s, 4)


def _joined(calls: Iterable[StageCall]) -> NDArray[np.int16]:
    parts = [answer for call in calls for _, answer in call.answers]
    return np.concatenate(parts) if parts else np.zeros(0, np.int16)


def _flac(pcm: NDArray[np.int16], rate_hz: int) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, pcm, rate_hz, subtype="PCM_16", format="FLAC")
    return buffer.getvalue()


def _json(value: Any, indent: int | None = 1) -> bytes:
    """What clients send may hold numbers and characters that JSON and UTF-8 do not have."""
    try:
        text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False, default=str)
    except ValueError:
        plain = json.loads(json.dumps(value, default=str), parse_constant=lambda name: None)
        text = json.dumps(plain, ensure_ascii=False, indent=indent)
    return text.encode("utf-8", "replace")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _zipped(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            packed = zipfile.ZIP_STORED if name.endswith(".flac") else zipfile.ZIP_DEFLATED
            archive.writestr(name, content, packed)
    return buffer.getvalue()
