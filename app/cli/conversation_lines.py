"""A conversation as plain terminal lines: pure, from the events of docs/events.md."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.cli.transcript import NOTHING_HEARD, message_of
from app.dialogue.ports import WireEvent

STATES = {
    "listening": "listening",
    "hearing": "hearing you",
    "thinking": "thinking",
    "speaking": "speaking",
    "reconnecting": "the connection was lost; reconnecting",
}
_TIMINGS = {
    "endpoint": "end of turn",
    "asr": "recognised",
    "llm_first_token": "first token",
    "first_clause": "first clause",
    "tts_first_audio": "first sound",
}


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
                return [f"You:    {event['transcript'].strip()}"]
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
                return [_latency(event["timings_ms"])]
            case "input_audio_buffer.committed" if event["item_id"] is None:
                return [f"! {NOTHING_HEARD}"]
            case "parley.notice":
                return [f"! {event['text']}"]
            case "parley.context":
                fate = "only in a summary" if event["complete"] else "no longer, or only in part"
                return [f"· a long conversation: the model sees the first {event['turns']} turns {fate}"]
            case "error":
                return [f"! error: {message_of(event)}"]
            case "parley.closed":
                return [f"· ended: {event['reason']}"]
        return []

    def _reply_over(self, reply: str, status: str) -> list[str]:
        text = self._replies.pop(reply, "").strip()
        heard = self._heard.pop(reply, "").strip()
        if not heard and status == "completed":
            return []
        if status == "completed":
            return [f"Parley: {heard}"]
        unheard = text.removeprefix(heard).strip() if text.startswith(heard) else ""
        why = "interrupted" if status == "cancelled" else "broke off"
        return [f"Parley: {heard}{' ' if heard else ''}— {why}" + (f", unheard: {unheard}" if unheard else "")]


def _latency(timings_ms: dict[str, float]) -> str:
    parts = ", ".join(f"{name} {timings_ms[key]:.0f}" for key, name in _TIMINGS.items() if key in timings_ms)
    total = timings_ms.get("voice_to_voice")
    return f"        answered after {total:.0f} ms ({parts})" if total is not None else f"        ms: {parts}"
