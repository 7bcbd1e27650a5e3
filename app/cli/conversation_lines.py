"""A conversation as plain terminal lines: pure, from the events of docs/events.md."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.cli.transcript import NOTHING_HEARD, OUR_REASONS, message_of, wait_of
from app.dialogue.ports import WireEvent
from app.telemetry.trace import STAGE_NAMES

STATES = {
    "listening": "listening",
    "hearing": "hearing you",
    "thinking": "thinking",
    "speaking": "speaking",
    "reconnecting": "the connection was lost; reconnecting",
}
_YOU, _PARLEY = "You:    ", "Parley: "


def is_said(line: str) -> bool:
    """Whether it is part of the conversation, and not a remark about it."""
    return line.startswith((_YOU, _PARLEY))


@dataclass(slots=True)
class ConversationLines:
    """``feed`` an event, print the lines it returns. Assistant words are told once they were heard."""

    _replies: dict[str, str] = field(default_factory=dict)
    """What each reply would say in full, by response id, until it is over."""
    _heard: dict[str, str] = field(default_factory=dict)

    def feed(self, event: WireEvent) -> list[str]:
        match event["type"]:
            case "parley.state":
                return [f"· {STATES.get(event['state'], event['state'])}"]
            case "conversation.item.input_audio_transcription.completed":
                return [_YOU + _one_line(event["transcript"])]
            case "conversation.item.input_audio_transcription.failed":
                return [f"! not understood: {message_of(event)}"]
            case "response.created":
                self._replies.pop(event["response"]["id"], None)  # its whole text comes again after a reconnection
            case "response.output_audio_transcript.delta" | "response.output_text.delta":
                reply = event["response_id"]
                self._replies[reply] = self._replies.get(reply, "") + event["delta"]
            case "response.output_audio_transcript.done":
                self._heard[event["response_id"]] = event["transcript"]
            case "response.output_text.done":
                self._heard[event["response_id"]] = event["text"]
            case "response.done":
                return self._reply_over(event["response"]["id"], event["response"]["status"])
            case "parley.turn":
                return _latency(event)
            case "input_audio_buffer.committed" if event["item_id"] is None:
                return [f"! {NOTHING_HEARD}"]
            case "parley.notice":
                return [f"! {event['text']}"]
            case "parley.context":
                fate = "only in a summary" if event["complete"] else "no longer, or only in part"
                return [f"· a long conversation: the model sees the first {event['turns']} turns {fate}"]
            case "error":
                return [f"! error: {message_of(event)}"]
            case "parley.closed" if event["reason"] not in OUR_REASONS:
                return [f"· ended: {event['reason']}"]
        return []

    def _reply_over(self, reply: str, status: str) -> list[str]:
        text = self._replies.pop(reply, "").strip()
        heard = self._heard.pop(reply, "").strip()
        if not heard and status == "completed":
            return []
        if status == "completed":
            return [_PARLEY + _one_line(heard)]
        unheard = text.removeprefix(heard).strip() if text.startswith(heard) else ""
        why = "interrupted" if status == "cancelled" else "broke off"
        rest = f", unheard: {_one_line(unheard)}" if unheard else ""
        return [_PARLEY + " ".join(filter(None, (_one_line(heard), f"— {why}{rest}")))]


def _one_line(text: str) -> str:
    """A turn is a line, however many paragraphs it has."""
    return " ".join(text.split())


def _latency(event: WireEvent) -> list[str]:
    wait, timings_ms = wait_of(event), event["timings_ms"]
    if wait is None:
        return []
    parts = ", ".join(
        f"{name} {timings_ms[key]:.0f}"
        for key, name in STAGE_NAMES.items()
        if key in timings_ms and key != "voice_to_voice" and not wait[0].startswith(name)
    )
    return [f"        {wait[0]} {wait[1]:.0f} ms" + (f" ({parts})" if parts else "")]
