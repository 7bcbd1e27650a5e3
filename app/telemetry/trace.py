"""Where the time of one turn went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

STAGE_NAMES: Mapping[str, str] = {
    "endpoint": "end of turn",
    "asr": "recognition",
    "queue": "queue",
    "prefill": "reading",
    "llm_first_token": "first word",
    "first_clause": "first clause",
    "tts_first_audio": "voice",
    "playout": "sending",
    "voice_to_voice": "voice to voice",
}
"""What people read, in the order of a turn; the page uses the same words (docs/page.md)."""


@dataclass(frozen=True, slots=True)
class TurnTrace:
    """Moments of one turn, in seconds of the session's clock; None where it has not come to that.

    ``speech_end`` is the last sample of speech, not its detection. ``transcript`` and ``turn_end`` may come
    in either order; ``requested`` is when both were there and the language model was asked.
    """

    speech_end: float | None = None
    recognition_start: float | None = None
    transcript: float | None = None
    turn_end: float | None = None
    requested: float | None = None
    first_text: float | None = None
    first_clause: float | None = None
    first_sound: float | None = None
    first_played: float | None = None
    queue_ms: float | None = None
    """How long the language model let the request wait, as far as it tells."""
    prefill_ms: float | None = None
    """And how long it then read before it wrote."""

    def timings_ms(self) -> dict[str, float]:
        """The waterfall, each stage in ms; stages that did not happen (typed text has no ASR) are left out."""
        spans = {
            "endpoint": (self.speech_end, self.turn_end),
            "asr": (self.recognition_start, self.transcript),
            "llm_first_token": (self.requested, self.first_text),
            "first_clause": (self.first_text, self.first_clause),
            "tts_first_audio": (self.first_clause, self.first_sound),
            "playout": (self.first_sound, self.first_played),
            "voice_to_voice": (self.speech_end, self.first_played),
        }
        return {
            name: round((end - start) * 1000.0, 1)
            for name, (start, end) in spans.items()
            if start is not None and end is not None
        }

    def spans_ms(self) -> dict[str, tuple[float, float]]:
        """(start, end) of each stage of the waterfall, in ms since the end of speech; of a typed turn since the request.

        As in ``timings_ms``; ``queue`` and ``prefill`` are the parts of ``llm_first_token`` that the model tells of,
        which it does at the end of a reply. Negative: before the end of speech.
        """
        origin = self.speech_end if self.speech_end is not None else self.requested
        if origin is None:
            return {}
        queued = prefilled = None
        if self.requested is not None and self.queue_ms is not None and self.prefill_ms is not None:
            queued = self.requested + self.queue_ms / 1000.0
            prefilled = queued + self.prefill_ms / 1000.0
        spans = {
            "endpoint": (self.speech_end, self.turn_end),
            "asr": (self.recognition_start, self.transcript),
            "queue": (self.requested, queued),
            "prefill": (queued, prefilled),
            "llm_first_token": (self.requested, self.first_text),
            "first_clause": (self.first_text, self.first_clause),
            "tts_first_audio": (self.first_clause, self.first_sound),
            "playout": (self.first_sound, self.first_played),
        }
        return {
            name: (round((start - origin) * 1000.0, 1), round((end - origin) * 1000.0, 1))
            for name, (start, end) in spans.items()
            if start is not None and end is not None
        }
