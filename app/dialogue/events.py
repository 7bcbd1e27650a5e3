"""Everything that can happen to a conversation: the machine's only input.

Samples are positions in the user's 16 kHz input stream, or counts of the assistant's 48 kHz output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from app.audio.vad import SpeechLikely, SpeechStarted, SpeechStopped
from app.llm import Finished


@dataclass(frozen=True, slots=True)
class Transcribed:
    """The words of one segment of an utterance; ``text`` is empty when there were none."""

    utterance_id: str
    segment: int
    revision: int
    text: str
    language: str


@dataclass(frozen=True, slots=True)
class TranscriptionFailed:
    utterance_id: str
    segment: int
    revision: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Previewed:
    """The words so far of a segment that goes on; the last may be cut off."""

    utterance_id: str
    segment: int
    revision: int
    text: str
    language: str


@dataclass(frozen=True, slots=True)
class TurnJudged:
    """The turn model's probability (0..1) that the user has finished."""

    utterance_id: str
    revision: int
    completeness: float


@dataclass(frozen=True, slots=True)
class TypedText:
    """The user wrote instead of speaking. What is ``pinned`` is never left out of a prompt."""

    text: str
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class AnswerRequested:
    """The client wants what was typed to be answered now: to be heard, or only shown. None: as the session has it."""

    spoken: bool | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The client says that the user has finished: the button that they talk with was let go of."""


@dataclass(frozen=True, slots=True)
class Configured:
    """From now on: who the assistant is, whether turns end only by ``Committed``, whether replies are heard."""

    system_prompt: str
    manual: bool
    spoken: bool


@dataclass(frozen=True, slots=True)
class Left:
    """The connection to the client was lost, at ``at_sample`` of the user's input."""

    at_sample: int


@dataclass(frozen=True, slots=True)
class Returned:
    """The client is there again. It had been told that ``chars`` characters of the reply ``reply_id`` were heard."""

    reply_id: str = ""
    chars: int = 0


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The client wants the reply to stop."""


@dataclass(frozen=True, slots=True)
class GreetingDue:
    """The session has just opened and the assistant is to speak first."""

    text: str


@dataclass(frozen=True, slots=True)
class ReplyText:
    """The language model wrote ``text`` more, in ``tokens`` tokens."""

    generation: int
    text: str
    tokens: int = 1


@dataclass(frozen=True, slots=True)
class ReplyTextEnded:
    """The language model is done with this reply; ``finished`` is None where there was no model at work."""

    generation: int
    finished: Finished | None


@dataclass(frozen=True, slots=True)
class ClauseStarted:
    """Synthesis of the next clause begins."""

    generation: int


@dataclass(frozen=True, slots=True)
class ClauseSound:
    """Sound of a clause was queued for playing.

    ``queued_samples`` counts all sound of the reply so far. ``words`` holds (end in the reply's text,
    end in the reply's samples) for each word of the clause; a later event for the same ``clause``
    brings better estimates and replaces it. ``final`` marks the clause's last sound.
    """

    generation: int
    clause: int
    words: tuple[tuple[int, int], ...]
    queued_samples: int
    final: bool


@dataclass(frozen=True, slots=True)
class ReplySoundEnded:
    """All sound of the reply has been queued, ``total_samples`` of it."""

    generation: int
    total_samples: int


@dataclass(frozen=True, slots=True)
class ReplyFailed:
    """A stage gave up on this reply."""

    generation: int
    stage: Literal["llm", "tts"]
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Summarised:
    """``text`` stands for the history before index ``start`` from now on."""

    start: int
    text: str


@dataclass(frozen=True, slots=True)
class SummaryFailed:
    start: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Played:
    """The transport has taken ``samples`` samples of this reply so far."""

    generation: int
    samples: int


@dataclass(frozen=True, slots=True)
class Tick:
    """A deadline of the state may have passed.

    ``at_sample`` is where the user's input is by now, ``voiced`` whether it is speech at this very moment.
    """

    at_sample: int
    voiced: bool


@dataclass(frozen=True, slots=True)
class HungUp:
    """The client left, or the session was closed from outside."""

    reason: str


Event: TypeAlias = (
    SpeechLikely
    | SpeechStarted
    | SpeechStopped
    | Transcribed
    | TranscriptionFailed
    | Previewed
    | TurnJudged
    | TypedText
    | AnswerRequested
    | StopRequested
    | Committed
    | Configured
    | Left
    | Returned
    | GreetingDue
    | ReplyText
    | ReplyTextEnded
    | ClauseStarted
    | ClauseSound
    | ReplySoundEnded
    | ReplyFailed
    | Summarised
    | SummaryFailed
    | Played
    | Tick
    | HungUp
)
