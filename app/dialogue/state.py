"""What a conversation is at one moment. Immutable; everything else about it is derived from here."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, TypeAlias

from app.dialogue.phrases import Phrase
from app.dialogue.words.endpoint import Patience
from app.llm import ChatMessage, Usage
from app.llm.memory import Budget, TokenGauge, system_text
from app.telemetry.trace import TurnTrace


class Timer(StrEnum):
    """Deadlines that a state can have. Each leads out of the state that set it."""

    LIKELY = "likely"
    """What seemed to become speech over the assistant has not."""
    BARGE_IN = "barge_in"
    """Speech over the assistant has gone on: what it is must be found out."""
    PARTIAL = "partial"
    """The user has been speaking for a while: a look at the words so far."""
    LOOK = "look"
    """The pause is long enough for the turn model to be asked."""
    TURN_END = "turn_end"
    """The pause has lasted long enough to end the turn whatever the turn model thinks."""
    UTTERANCE = "utterance"
    """The user has been speaking (or a noise has been taken for speech) too long."""
    RECOGNITION = "recognition"
    FIRST_TEXT = "first_text"
    STALL = "stall"
    """The language model paused in mid-reply for too long."""
    SOUND = "sound"
    """A clause was given to the voice and has not become sound."""
    FILLER = "filler"
    """The answer takes long; say that it is coming."""
    PLAYBACK = "playback"
    """Sound is queued and the transport does not take it."""
    COMMIT = "commit"
    """The user has let go of the button, and the last of their words is on its way."""
    RETURN = "return"
    """The connection was lost, and nobody has come back."""
    AWAY = "away"
    """Nobody has said anything for a while: ask if the user is still there."""
    LEAVE = "leave"
    """The goodbyes have been said, and their last sound is on its way."""
    IDLE = "idle"
    """Nobody has said anything for a long time."""


SAID_CHARS = 240
"""How much of what was said last is remembered, to know an echo of it by: some 15 s."""

Phase: TypeAlias = Literal["listening", "hearing", "thinking", "speaking"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The machine's times and thresholds; seconds, samples at 16 kHz, probability."""

    silence_s: float
    pre_roll_samples: int
    partial_s: float
    """0: words are not looked at while they are spoken."""
    look_s: float
    patience: Patience | None
    """None: no turn model, the pause alone decides."""
    turn_wait_s: float
    """Pause after which the turn ends regardless, counted from the end of speech."""
    early_replies: bool
    barge_in_s: float
    barge_in_max_s: float
    max_utterance_s: float
    recognition_timeout_s: float
    first_text_timeout_s: float
    stall_timeout_s: float
    sound_timeout_s: float
    playback_timeout_s: float
    connect_timeout_s: float
    """How much longer the first sound may take to be taken: a client may send and take none before it is connected."""
    idle_timeout_s: float
    away_s: float
    """0: never ask."""
    filler_s: float
    """0: no fillers."""
    hang_up_on_goodbye: bool
    farewell: str
    """"": the model's."""
    resume_s: float
    """How long a session waits for a client that was lost; 0: it ends with the connection."""


@dataclass(frozen=True, slots=True)
class Item:
    """One finished contribution to the conversation."""

    id: str
    role: Literal["user", "assistant"]
    text: str
    pinned: bool = False
    """Stays in prompts however long the conversation gets."""
    shown: bool = False
    """It was read and not heard."""
    unheard: str = ""
    """Of an interrupted reply: how it would have gone on, from the clause that was cut."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What prompts hold of the history: pinned items, and all from ``start`` on; ``summary`` stands for the rest."""

    budget: Budget = Budget()
    gauge: TokenGauge = TokenGauge()
    start: int = 0
    summary: str = ""
    summarised_to: int = 0
    """The summary covers the items before this index."""
    left_out: bool = False
    """Items before ``start`` are missing from the summary too."""
    pending: int | None = None
    """A summary of the items before this index is being written."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """What the user is saying, or has said and is not answered yet.

    It is made of segments: a long one is closed at a pause, so that recognition keeps up with the
    speaker. ``texts`` holds the words of the segments closed so far (None: still being recognised);
    ``start_sample``, ``text``, ``partial`` and ``confirmed`` belong to the one that is open. ``revision`` counts the
    pauses after which recognition of the open segment was started: results of an older one are stale.
    """

    id: str
    start_sample: int
    began: float = 0.0
    """When speech was noticed, in seconds of the machine's clock."""
    speaking: bool = True
    revision: int = 0
    texts: tuple[str | None, ...] = ()
    text: str | None = None
    partial: str | None = None
    """What was heard of the open segment while it was spoken; None: nobody has listened yet."""
    previewed_at: float = 0.0
    confirmed: str = ""
    """Its beginning, on which two successive partials agreed."""
    language: str = ""
    completeness: float | None = None
    """The turn model's probability that this pause is the end; None: not known (yet)."""
    overlapping: bool = False
    """It began over the assistant, and whether it interrupts is not decided."""
    interrupted: bool = False
    """It has stopped a reply."""
    reopened: bool = False
    """It goes on with a turn that was taken for over, and whose answer nobody has heard: they are one."""
    dismissed: bool = False
    """So far it has been noise or echo: the assistant speaks on."""
    no_early: bool = False
    """A reply that was begun early has failed: the next one waits for the end of the turn."""
    wasted_tokens: int = 0
    """Of replies that were begun early for words that then went on."""
    over: bool = False
    """The turn is over: as soon as all words are there it is answered."""
    trace: TurnTrace = TurnTrace()

    @property
    def words(self) -> str | None:
        """All that was said, or None while some of it is still being recognised."""
        parts = (*self.texts, self.text)
        if any(part is None for part in parts):
            return None
        return " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the assistant is saying, or about to. ``phrase`` is set for lines that are not part of the talk."""

    id: str
    generation: int
    phrase: Phrase | None = None
    silent: bool = False
    """It is written and shown, and not spoken: what is shown counts as heard."""
    early: bool = False
    """Begun before the turn was over: nobody knows of it yet, and it may be dropped without a trace."""
    early_s: float = 0.0
    """How long before the end of the turn it was begun."""
    wasted_tokens: int = 0
    """Of earlier replies to the same turn that were dropped."""
    held: bool = False
    """Silent in the middle of its sound, while the user says something over it."""
    last: bool = False
    """It answers a goodbye: the call ends with it."""
    text: str = ""
    tokens: int = 0
    text_ended: bool = False
    clauses: tuple[tuple[tuple[int, int], ...], ...] = ()
    """Per clause: (end in ``text``, end in samples) of each word."""
    queued_samples: int = 0
    total_samples: int | None = None
    played_samples: int = 0
    heard_chars: int = 0
    failed_with: Phrase | None = None
    """Set when a stage gave up: what is queued is still played, then this is said."""
    usage: Usage | None = None
    messages: tuple[ChatMessage, ...] = ()
    """What the model was asked, if it was."""
    traced: bool = False
    """The turn's timings have been told."""
    trace: TurnTrace = TurnTrace()

    @property
    def audible(self) -> bool:
        return self.played_samples > 0

    @property
    def pending_sound(self) -> bool:
        """Sound is queued that has not been played."""
        return self.queued_samples > self.played_samples

    @property
    def heard_text(self) -> str:
        return self.text[: self.heard_chars].strip()

    def heard_after(self, samples: int) -> int:
        """Characters of ``text`` heard once ``samples`` have been played; never less than before."""
        if self.total_samples is not None and samples >= self.total_samples and self.failed_with is None:
            return len(self.text)
        heard = self.heard_chars
        for words in reversed(self.clauses):
            index = bisect_right(words, samples, key=lambda word: word[1])
            if index:
                return max(heard, words[index - 1][0])
        return heard


@dataclass(frozen=True, slots=True)
class State:
    limits: Limits
    system_prompt: str = ""
    language: str = "en"
    """Of Parley's own lines, ISO 639-1."""
    history: tuple[Item, ...] = ()
    typed: tuple[Item, ...] = ()
    """Written by the user and not yet to be answered."""
    memory: Memory = Memory()
    utterance: Utterance | None = None
    reply: Reply | None = None
    answering: str = ""
    """The utterance that the newest reply answers."""
    generation: int = 0
    """Of the newest reply. Whatever carries an older number is stale."""
    items: int = 0
    """Ids given out so far."""
    timers: Mapping[Timer, float] = field(default_factory=lambda: MappingProxyType({}))
    """Deadlines, in seconds of the clock that the events are stamped with."""
    last_said: str = ""
    """The end of what the assistant said last, its own lines included: what an echo would sound like."""
    last_said_at: float = 0.0
    last_exchange_at: float | None = None
    """When a turn was taken or a reply ended last, or the session began: what idling is counted from."""
    asked_away: bool = False
    """The user has been asked if they are there, and has not said anything since."""
    leaving: bool = False
    """The goodbyes have been said."""
    manual: bool = False
    """Turns end when the client says so, and not at a pause."""
    spoken: bool = True
    """Replies are heard, unless one is asked for that is not."""
    left: bool = False
    """The client is not there: what the assistant has to say waits for it."""
    connecting: bool = True
    """No sound has been taken since the client came."""
    closed: bool = False

    @property
    def phase(self) -> Phase:
        if self.utterance is not None and not self.utterance.over:
            return "hearing"
        if self.reply is not None and self.reply.audible:
            return "speaking"
        if self.reply is not None or self.utterance is not None:
            return "thinking"
        return "listening"

    @property
    def holding(self) -> bool:
        """A reply is kept back because the user speaks or is away. One that is audible already is ducked instead."""
        waits = self.utterance is not None or self.left
        return waits and self.reply is not None and not self.reply.audible

    @property
    def next_deadline(self) -> float | None:
        return min(self.timers.values(), default=None)


def conversation(state: State) -> tuple[Item, ...]:
    """The conversation as it was heard, including what has been heard of the reply being spoken."""
    reply = state.reply
    if reply is None or reply.phrase is not None or not reply.heard_text:
        return state.history
    return (*state.history, Item(reply.id, "assistant", reply.heard_text, shown=reply.silent))


def system_message(system_prompt: str, memory: Memory) -> str:
    """Changes only when the memory does, so that the turns in between find it computed."""
    return system_text(system_prompt, memory.summary, left_out=memory.left_out)


def prompt(state: State) -> tuple[ChatMessage, ...]:
    """What the language model is asked. Successive items of one speaker become one message, as templates want."""
    system = system_message(state.system_prompt, state.memory)
    messages = [ChatMessage("system", system)] if system else []
    for index, item in enumerate(conversation(state)):
        if index < state.memory.start and not item.pinned:
            continue
        if messages and messages[-1].role == item.role:
            messages[-1] = ChatMessage(item.role, f"{messages[-1].content} {item.text}")
        else:
            messages.append(ChatMessage(item.role, item.text))
    return tuple(messages)
