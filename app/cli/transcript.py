"""What was said so far, for a view that shows it all: pure, from the events of docs/events.md."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any, Literal, TypeAlias

from app.dialogue.ports import WireEvent

Speaker: TypeAlias = Literal["you", "parley", "note"]
NOTHING_HEARD = "Nothing was heard. Is it the right microphone? `python -m app --list-devices` shows which there are."
_KEPT_LINES = 500
_KEPT_TURNS = 500
OUR_REASONS = frozenset({"asleep", "microphone closed", "hung_up"})
"""Of an end that was made here, and so need not be told."""
_NOTHING_SAID = frozenset({"no_words", "echo"})


@dataclass(slots=True)
class Line:
    """One turn of one side, or a remark of the program's own."""

    speaker: Speaker
    text: str = ""
    heard: int = 0
    """Characters of a reply that have been played."""
    over: bool = False
    key: str = ""
    """Item or response id."""

    @property
    def unheard(self) -> str:
        """What a reply that is over never said aloud."""
        return self.text[self.heard :] if self.speaker == "parley" and self.over else ""


Wait: TypeAlias = tuple[str, float]
"""What somebody waited for, in words to put a time behind, and how long, in milliseconds."""


def wait_of(event: WireEvent) -> Wait | None:
    """Of ``parley.turn``: voice to voice, or from a typed question to the first sound, or word, of the answer."""
    timings, spans = event["timings_ms"], event.get("spans_ms", {})
    if "voice_to_voice" in timings:
        return "answered after", timings["voice_to_voice"]
    if "playout" in spans:
        return "first sound after", spans["playout"][1]
    return ("first word after", spans["llm_first_token"][1]) if "llm_first_token" in spans else None


@dataclass(slots=True)
class Latency:
    """How long answers took; percentiles are of one kind of wait only."""

    what: str = ""
    last_ms: float | None = None
    _all: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_TURNS))

    def add(self, wait: Wait) -> None:
        if wait[0] != self.what:
            self._all.clear()
        self.what, self.last_ms = wait
        self._all.append(wait[1])

    @property
    def turns(self) -> int:
        return len(self._all)

    def percentile(self, percent: int) -> float:
        """Of the turns so far, at least one; ``percent`` from 1 to 99."""
        if len(self._all) == 1:
            return self._all[0]
        return quantiles(self._all, n=100, method="inclusive")[percent - 1]


@dataclass(slots=True)
class Transcript:
    """``feed`` it events and read ``lines``, ``state`` and ``latency``."""

    state: str = "listening"
    lines: deque[Line] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    latency: Latency = field(default_factory=Latency)

    def note(self, text: str) -> None:
        self.lines.append(Line("note", text, over=True))

    def feed(self, event: WireEvent) -> None:
        match event["type"]:
            case "parley.state":
                self.state = event["state"]
            case "conversation.item.input_audio_transcription.delta":
                self._line("you", event["item_id"]).text += event["delta"]
            case "conversation.item.input_audio_transcription.completed":
                line = self._line("you", event["item_id"])
                line.text, line.over = event["transcript"].strip(), True
            case "conversation.item.input_audio_transcription.failed":
                self._not_understood(event)
            case "response.created":
                line = self._line("parley", event["response"]["id"])
                line.text, line.over = "", False  # its whole text comes again after a reconnection
            case "response.output_audio_transcript.delta":
                self._line("parley", event["response_id"]).text += event["delta"]
            case "response.output_text.delta":
                line = self._line("parley", event["response_id"])
                line.text += event["delta"]
                line.heard = len(line.text)  # read, as nothing is spoken
            case "parley.heard":
                self._line("parley", event["response_id"]).heard = event["chars"]
            case "response.done":
                self._reply_over(event["response"]["id"], event["response"]["status"])
            case "parley.turn" if wait := wait_of(event):
                self.latency.add(wait)
            case "parley.notice":
                self.note(event["text"])
            case "parley.context":
                self.note(f"A long conversation: its first {event['turns']} turns are no longer seen word for word.")
            case "input_audio_buffer.committed" if event["item_id"] is None:
                self.note(NOTHING_HEARD)
            case "parley.closed":
                self.state = "closed"
                if event["reason"] not in OUR_REASONS:
                    self.note(f"The conversation has ended: {str(event['reason']).replace('_', ' ')}.")
            case "error":
                self.note(f"Error: {message_of(event)}")

    def _line(self, speaker: Speaker, key: str) -> Line:
        """The line of that item: mostly the last one, so it is looked for from the end."""
        for line in reversed(self.lines):
            if line.key == key:
                return line
        line = Line(speaker, key=key)
        self.lines.append(line)
        return line

    def _not_understood(self, event: WireEvent) -> None:
        for line in list(self.lines):
            if line.key == event["item_id"] and not line.over:
                self.lines.remove(line)
        error = event.get("error")
        if not (isinstance(error, dict) and error.get("code") in _NOTHING_SAID):
            self.note(f"Not understood: {message_of(event)}")

    def _reply_over(self, key: str, status: str) -> None:
        line = self._line("parley", key)
        line.over = True
        if status == "completed":
            line.heard = len(line.text)
        if not line.text.strip():
            self.lines.remove(line)


def message_of(event: WireEvent) -> str:
    """What an event with an ``error`` says."""
    error = event.get("error")
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)


def printable(value: Any) -> Any:
    """An event without characters that a terminal would obey or that hide others; as many as before, since
    ``parley.heard`` counts them. What a model writes or a server sends must not move the cursor."""
    if isinstance(value, str):
        return value if value.isprintable() else "".join(char if char.isprintable() else " " for char in value)
    if isinstance(value, dict):
        return {key: printable(inner) for key, inner in value.items()}
    return [printable(inner) for inner in value] if isinstance(value, list) else value
