"""Where the time of one turn went."""

from __future__ import annotations

from dataclasses import dataclass


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
