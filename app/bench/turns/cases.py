"""What a case is: what the user does, and what Parley must make of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from app.bench.turns.hums import Hum
from app.bench.turns.sounds import Noise
from app.bench.turns.voices import Voice


class Must(StrEnum):
    """What is right."""

    ANSWER = "answer"
    """One turn of the user, answered once it is over and not before."""
    PLAY_ON = "play on"
    """The assistant goes on with what it is saying, to its end; nothing becomes a turn."""
    STOP = "stop"
    """The assistant stops. What was said is a turn, but a bare "stop" need not be."""
    NOTHING = "nothing"
    """Nobody spoke: no turn, no reply."""


@dataclass(frozen=True, slots=True)
class Say:
    """``text`` in a synthetic voice. Each ``|`` in it is a pause, as long as the next of ``pauses_ms``.

    The whole is spoken in one go and taken apart at its own pauses, so that the voice before a pause does not
    fall as at the end of a sentence.
    """

    text: str
    voice: Voice = "woman"
    pauses_ms: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase of pytest-audioeval."""

    name: str


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A stretch of aiortc's recording."""

    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Made:
    """Noise that somebody makes, its active level ``level_db`` above that of speech."""

    kind: Noise
    seconds: float
    level_db: float = -6.0


@dataclass(frozen=True, slots=True)
class Hummed:
    """A listener's noise that no voice can read out, by a speaker of this pitch."""

    kind: Hum
    hertz: float


@dataclass(frozen=True, slots=True)
class Gap:
    ms: int


Part: TypeAlias = Say | Phrase | Excerpt | Made | Hummed | Gap


@dataclass(frozen=True, slots=True)
class Background:
    """Noise under everything, ``snr_db`` below speech."""

    kind: Noise
    snr_db: float


@dataclass(frozen=True, slots=True)
class Echo:
    """The assistant's own sound in the user's microphone."""

    delay_ms: int
    level_db: float = -20.0


@dataclass(frozen=True, slots=True)
class Case:
    """``over_s`` set: the assistant is speaking, and the case begins that long after its first sample.

    ``words`` is what a perfect transcript would say; None where it is not to be scored.
    """

    name: str
    category: str
    must: Must
    parts: tuple[Part, ...]
    words: str | None = None
    over_s: float | None = None
    background: Background | None = None
    echo: Echo | None = None

    @property
    def whole_reply(self) -> bool:
        """Whether the answer is listened to until its end: what comes back of it must not do harm either."""
        return self.echo is not None

    @property
    def wants_answer(self) -> bool:
        """Whether it holds a turn that must be answered; a bare "stop" need not be."""
        return self.must is Must.ANSWER or (self.must is Must.STOP and self.words is not None)

    @property
    def needs_phrases(self) -> bool:
        return any(isinstance(part, Phrase) for part in self.parts)

    @property
    def needs_demo(self) -> bool:
        return any(isinstance(part, Excerpt) for part in self.parts)


def spoken(text: str) -> str:
    """A script's words without its marks."""
    return " ".join(text.replace("|", " ").split())
