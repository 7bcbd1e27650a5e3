"""What every speech recogniser offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from app.audio.frames import Pcm
from app.telemetry.stage import StageReport


@dataclass(frozen=True, slots=True)
class Transcript:
    """The words of one utterance. ``text`` is stripped and empty when nothing was said.

    ``language`` is an ISO 639-1 code; ``confidence`` is the mean token probability in 0..1
    (1.0 where the backend does not tell).
    """

    text: str
    language: str
    confidence: float = 1.0


class Recognizer(Protocol):
    """Turns the sound of an utterance into text. Safe to call from many sessions at once."""

    @property
    def languages(self) -> tuple[str, ...]:
        """ISO 639-1 codes it chooses among where it is told none; known once loaded."""
        ...

    async def load(self) -> StageReport:
        """Load and warm up with dummy work; raises ModelError when the model cannot be used."""
        ...

    async def transcribe(
        self, pcm: Pcm, *, language: str | None = None, expected: str = "", known: str = "", partial: bool = False
    ) -> Transcript:
        """Transcribe ``pcm`` (int16 ``[n]``, 16 kHz, any length; long input is split inside).

        ``language`` fixes the language; None lets the backend decide within its allowlist, where ``expected``
        (what this speaker spoke last, "" if unknown) wins unless another is clearly likelier. ``known`` are the
        words that ``pcm`` begins with, as earlier calls have found them: where the sound bears them out the text
        begins with exactly them, where it does not (more context, better ears) it begins otherwise. A ``partial``
        is of speech that goes on: it gives way to others, and is refused with Overloaded where the machine has no
        time for it; of very long speech it may tell the end only. Cancelling the awaiting task drops the work if it has not begun. Raises StageError.
        """
        ...

    async def close(self) -> None: ...
