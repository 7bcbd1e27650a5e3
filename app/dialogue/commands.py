"""Everything the machine can ask its shell to do: the machine's only output besides the next state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from app.dialogue.phrases import Phrase
from app.llm import ChatMessage
from app.llm.memory import Budget, TokenGauge


@dataclass(frozen=True, slots=True)
class Transcribe:
    """Recognise the input from ``start_sample`` to ``end_sample`` (pre-roll already included)."""

    utterance_id: str
    segment: int
    revision: int
    start_sample: int
    end_sample: int
    known: str = ""
    """Words that it begins with, found while it was being spoken."""


@dataclass(frozen=True, slots=True)
class Preview:
    """Recognise what has been said so far of a segment that goes on. A result is not owed, unless it is ``urgent``:
    then something waits for it."""

    utterance_id: str
    segment: int
    revision: int
    start_sample: int
    end_sample: int
    known: str
    urgent: bool


@dataclass(frozen=True, slots=True)
class JudgeTurn:
    """Ask the turn model about the input up to ``end_sample``."""

    utterance_id: str
    revision: int
    start_sample: int
    end_sample: int


@dataclass(frozen=True, slots=True)
class DropRecognition:
    """The results of this revision (transcript and verdict) are no longer wanted; None: of none that there was."""

    utterance_id: str
    revision: int | None


@dataclass(frozen=True, slots=True)
class Generate:
    """Let the language model answer ``messages``; speak it as ``generation``."""

    generation: int
    messages: tuple[ChatMessage, ...]
    spoken: bool = True
    """False: only its text is wanted."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Let the language model read ``messages`` ahead of the turn; the last may still grow or change."""

    messages: tuple[ChatMessage, ...]


@dataclass(frozen=True, slots=True)
class Summarise:
    """Have the model write, when nobody waits for it, what stands for the history before index ``start``:
    the ``summary`` so far and the ``messages`` that are not in it."""

    start: int
    summary: str
    messages: tuple[ChatMessage, ...]
    gauge: TokenGauge
    budget: Budget


@dataclass(frozen=True, slots=True)
class Say:
    """Speak ``text`` as it stands (a greeting) as ``generation``."""

    generation: int
    text: str
    spoken: bool = True


@dataclass(frozen=True, slots=True)
class SayPhrase:
    """Speak a line prepared at start-up, which works even when the voice is broken."""

    generation: int
    phrase: Phrase


@dataclass(frozen=True, slots=True)
class Aside:
    """Say ``phrase`` before the sound of the reply that is being waited for. It counts for nothing."""

    phrase: Phrase


@dataclass(frozen=True, slots=True)
class CancelReply:
    """Stop generating and synthesising ``generation``. Sound already queued stays queued."""

    generation: int


@dataclass(frozen=True, slots=True)
class Flush:
    """Drop the queued sound."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the queued sound back, without losing its place."""


@dataclass(frozen=True, slots=True)
class Release:
    """Play on from where it was held."""


@dataclass(frozen=True, slots=True)
class Rewind:
    """Play again from ``sample`` of the reply."""

    sample: int


@dataclass(frozen=True, slots=True)
class Duck:
    """Speak quietly."""


@dataclass(frozen=True, slots=True)
class Unduck:
    """Speak at full volume again."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Send an event (docs/events.md) to the client."""

    type: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EndSession:
    reason: str


Command: TypeAlias = (
    Transcribe
    | Preview
    | JudgeTurn
    | DropRecognition
    | Generate
    | Draft
    | Summarise
    | Say
    | SayPhrase
    | Aside
    | CancelReply
    | Flush
    | Hold
    | Release
    | Rewind
    | Duck
    | Unduck
    | Tell
    | EndSession
)
