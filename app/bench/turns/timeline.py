"""A case as a developer reads it: what was said, heard and decided, in order."""

from __future__ import annotations

import numpy as np

from app.audio.frames import INPUT_RATE_HZ, OUTPUT_RATE_HZ
from app.audio.resample import resample
from app.bench.turns.caller import Happening, Log
from app.bench.turns.heard import Heard

_TOLD_APART = 0.3
"""Gaps in the assistant's speech shorter than this, seconds, are not worth a line."""
_UNTOLD = frozenset({"parley.heard", "response.output_audio_transcript.delta", "parley.pong", "session.created"})


def timeline(log: Log, heard: Heard) -> list[str]:
    """Lines of time (s) and what happened; the user and the assistant are told by their sound."""
    lines = [(item.at_s, _told(item)) for item in log.happenings if item.type not in _UNTOLD]
    for first, end in log.marks:
        lines.append((log.at_s(first), "USER sounds"))
        lines.append((log.at_s(end), f"USER is silent (said {(end - first) / INPUT_RATE_HZ:.2f} s)"))
    for first_s, end_s in _audible(log, heard):
        lines.append((first_s, "ASSISTANT is heard"))
        lines.append((end_s, "ASSISTANT is silent"))
    lines += [(float(log.ticks_s[tick]), f"ASSISTANT {what}") for tick, what in _loudness(heard)]
    return [f"{at_s:7.2f}  {what}" for at_s, what in sorted(lines, key=lambda line: line[0])]


def stereo(log: Log) -> np.ndarray[tuple[int, int], np.dtype[np.int16]]:
    """The user left, the assistant right: int16 ``[n, 2]`` at 48 kHz."""
    user = resample(log.user, INPUT_RATE_HZ, OUTPUT_RATE_HZ)
    length = min(len(user), len(log.assistant))
    return np.stack([user[:length], log.assistant[:length]], axis=1)


def _told(item: Happening) -> str:
    event = item.event
    match item.type:
        case "parley.state":
            return f"state {event['state']}"
        case "conversation.item.input_audio_transcription.completed":
            return f"turn {event['transcript']!r}"
        case "conversation.item.input_audio_transcription.delta":
            return f"words so far {event.get('delta', '')!r}"
        case "conversation.item.input_audio_transcription.failed":
            return f"no turn: {event['error'].get('message', '')}"
        case "response.done":
            return f"reply {event['response']['status']}"
        case "response.output_audio_transcript.done":
            return f"heard of the reply: {event['transcript']!r}"
        case "parley.turn":
            timings = " ".join(f"{name} {ms:.0f}" for name, ms in event["timings_ms"].items())
            return f"parley.turn {timings}" + (f" early {event['early']}" if "early" in event else "")
        case "parley.notice":
            return f"notice {event['text']!r}"
        case "error":
            return f"error {event['error'].get('message', '')}"
        case _:
            where = next((f" at {event[key]} ms" for key in ("audio_start_ms", "audio_end_ms") if key in event), "")
            return f"{item.type}{where}"


def _audible(log: Log, heard: Heard) -> list[tuple[float, float]]:
    """Stretches in which the assistant is heard, its short pauses included."""
    spans: list[list[float]] = []
    for at_s in log.ticks_s[heard.audible]:
        if spans and at_s - spans[-1][1] < _TOLD_APART:
            spans[-1][1] = float(at_s)
        else:
            spans.append([float(at_s), float(at_s)])
    return [(first, end) for first, end in spans]


def _loudness(heard: Heard) -> list[tuple[int, str]]:
    """Where the first reply is turned down, kept silent and turned up again."""
    found: list[tuple[int, str]] = []
    last = "at full volume"
    for tick, gain_db in enumerate(heard.gain_db):
        if np.isnan(gain_db):
            continue
        now = "is kept silent" if np.isneginf(gain_db) else "at full volume" if gain_db > -3 else "is turned down"
        if now != last:
            # The first frame of it is the ramp.
            settled_db = float(np.nanmin(heard.gain_db[tick : tick + 2]))
            found.append((tick, now if now != "is turned down" else f"is turned down to {settled_db:.0f} dB"))
            last = now
    return found
