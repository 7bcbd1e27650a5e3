"""A world around the pure machine in which anything that is possible can happen next.

It keeps its own books of what the user said and what reached the ear, independent of the machine's,
so that the properties compare two accounts of the same events.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from app.audio.vad import SpeechLikely, SpeechStarted, SpeechStopped
from app.dialogue import commands as do
from app.dialogue import events as ev
from app.dialogue.machine import reduce
from app.dialogue.state import Limits, State, conversation
from app.dialogue.words.endpoint import Patience
from app.llm import ChatMessage, Finished, Usage

LIMITS = Limits(
    silence_s=0.2,
    pre_roll_samples=6400,
    partial_s=0.7,
    look_s=0.25,
    patience=Patience(complete_s=0.25, unfinished_s=1.2, longest_s=2.0, threshold=0.5),
    turn_wait_s=2.0,
    early_replies=True,
    barge_in_s=0.4,
    barge_in_max_s=1.2,
    max_utterance_s=60.0,
    recognition_timeout_s=5.0,
    first_text_timeout_s=5.0,
    stall_timeout_s=3.0,
    sound_timeout_s=5.0,
    playback_timeout_s=5.0,
    connect_timeout_s=15.0,
    idle_timeout_s=600.0,
    away_s=30.0,
    filler_s=2.5,
    hang_up_on_goodbye=True,
    farewell="",
    resume_s=60.0,
)
WORD_SAMPLES = 9600
WORDS = ["one ", "two, ", "three ", "four. ", "five ", "six "]


@dataclass
class ReplyBooks:
    """What is true of one reply, as the world sees it."""

    generation: int
    is_phrase: bool = False
    silent: bool = False
    taken_back_to: str | None = None
    """What is left of it after a client came back that had not heard its end."""
    text: str = ""
    words_sounded: int = 0
    clause: int = 0
    clause_open: bool = False
    text_ended: bool = False
    sound_ended: bool = False
    queued: int = 0
    played: int = 0
    cancelled: bool = False

    @property
    def heard(self) -> str:
        """The words whose sound has been played to the end; of a reply that is shown, all that was written."""
        if self.taken_back_to is not None:
            return self.taken_back_to
        if self.silent:
            return self.text.strip()
        return "".join(
            WORDS[i % len(WORDS)] for i in range(min(self.played // WORD_SAMPLES, self.words_sounded))
        ).strip()


@dataclass
class World:
    state: State = field(default_factory=lambda: State(LIMITS, system_prompt="Be kind."))
    now: float = 100.0
    sample: int = 0
    recognitions: list[do.Transcribe] = field(default_factory=list)
    previews: list[do.Preview] = field(default_factory=list)
    judgements: list[do.JudgeTurn] = field(default_factory=list)
    drafts: list[do.Draft] = field(default_factory=list)
    summaries: list[do.Summarise] = field(default_factory=list)
    replies: dict[int, ReplyBooks] = field(default_factory=dict)
    current: int = 0
    """Generation that the playout accepts."""
    held: bool = False
    told: list[do.Tell] = field(default_factory=list)
    prompts: list[tuple[ChatMessage, ...]] = field(default_factory=list)
    created: set[str] = field(default_factory=set)
    said: dict[str, str] = field(default_factory=dict)
    """Non-empty words recognised for an utterance, by its id, in the revision that counted last."""

    def post(self, event: ev.Event) -> None:
        self.state, commands = reduce(self.state, event, self.now)
        for command in commands:
            self._carry_out(command)

    def _carry_out(self, command: do.Command) -> None:
        match command:
            case do.Transcribe():
                self.recognitions.append(command)
            case do.Preview():
                self.previews.append(command)
            case do.Draft():
                assert self.state.reply is None or not self.state.reply.early
                self.drafts.append(command)
            case do.JudgeTurn():
                self.judgements.append(command)
            case do.Generate():
                self.prompts.append(command.messages)
                self._begin(ReplyBooks(command.generation, silent=not command.spoken))
            case do.Summarise():
                assert not self.summaries, "one summary at a time"
                self.summaries.append(command)
            case do.Say():
                self._begin(ReplyBooks(command.generation, silent=not command.spoken))
            case do.SayPhrase():
                self._begin(ReplyBooks(command.generation, is_phrase=True))
                books = self.replies[command.generation]
                books.queued, books.sound_ended = 2 * WORD_SAMPLES, True
                self.post(ev.ReplySoundEnded(command.generation, books.queued))
            case do.CancelReply():
                self.replies[command.generation].cancelled = True
            case do.Flush():
                if self.current in self.replies:
                    self.replies[self.current].queued = self.replies[self.current].played
            case do.Rewind():
                books = self.replies[self.current]
                assert 0 <= command.sample < books.played
                books.played = command.sample
            case do.Hold():
                self.held = True
            case do.Release():
                self.held = False
            case do.Tell():
                self._check_told(command)
                self.told.append(command)

    def _check_told(self, tell: do.Tell) -> None:
        if tell.type == "response.created":
            self.created.add(tell.fields["response"]["id"])
        elif "response_id" in tell.fields:
            assert tell.fields["response_id"] in self.created, "nothing is told of a reply begun early"

    def _begin(self, books: ReplyBooks) -> None:
        assert books.generation > self.current, "generations only grow"
        self.current = books.generation
        self.held = False
        self.replies[books.generation] = books

    # What can happen

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.sample += int(seconds * 16000)
        self.post(ev.Tick(self.sample, voiced=self.sample % 3 != 0))

    def start_speech(self) -> None:
        self.sample += 320
        self.post(SpeechStarted(self.sample))

    def seem_to_speak(self) -> None:
        self.post(SpeechLikely(self.sample))

    def stop_speech(self) -> None:
        self.now += 0.2
        self.sample += 3200
        self.post(SpeechStopped(self.sample - 3200))

    def recognise(self, pick: int, text: str | None) -> None:
        """Deliver an outstanding result, not always in order; None is a failure."""
        if not self.recognitions:
            return
        work = self.recognitions.pop(pick % len(self.recognitions))
        if text is None:
            failure = ev.TranscriptionFailed(work.utterance_id, work.segment, work.revision, "stage_failed", "x")
            self.post(failure)
        else:
            self.post(ev.Transcribed(work.utterance_id, work.segment, work.revision, text, "en"))

    def preview(self, pick: int, text: str) -> None:
        """A look at words half said comes back, or (no text) is never answered."""
        if self.previews:
            work = self.previews.pop(pick % len(self.previews))
            if text:
                self.post(ev.Previewed(work.utterance_id, work.segment, work.revision, text, "en"))

    def judge(self, pick: int, completeness: float) -> None:
        if self.judgements:
            work = self.judgements.pop(pick % len(self.judgements))
            self.post(ev.TurnJudged(work.utterance_id, work.revision, completeness))

    def summarise(self, number: int) -> None:
        """The summary that is being written arrives, or fails."""
        if self.summaries:
            work = self.summaries.pop()
            if number % 3:
                self.post(ev.Summarised(work.start, f"Summary of {len(work.messages)} messages."))
            else:
                self.post(ev.SummaryFailed(work.start, "stage_timeout", "x"))

    def write_word(self, pick: int, *, stale: bool) -> None:
        """The next word of a reply: text first, its sound later. Cancelled replies may still emit."""
        books = self._reply(pick, stale)
        if books is None or books.text_ended or books.is_phrase:
            return
        word = WORDS[len(books.text.split()) % len(WORDS)]
        if not books.cancelled:
            books.text += word
        self.post(ev.ReplyText(books.generation, word))

    def sound_word(self, pick: int, *, stale: bool) -> None:
        """The next written word becomes sound, each word a clause of its own."""
        books = self._reply(pick, stale)
        if books is None or books.is_phrase or books.sound_ended or books.silent:
            return
        written = len(books.text.split())
        if books.cancelled or books.words_sounded >= written:
            self.post(ev.ClauseSound(books.generation, 99, ((1, 1),), 1, True)) if books.cancelled else None
            return
        end = sum(len(WORDS[i % len(WORDS)]) for i in range(books.words_sounded + 1))
        books.words_sounded += 1
        books.queued += WORD_SAMPLES
        self.post(ev.ClauseStarted(books.generation))
        words = ((end, books.queued),)
        self.post(ev.ClauseSound(books.generation, books.words_sounded - 1, words, books.queued, True))

    def end_text(self, pick: int, *, stale: bool) -> None:
        books = self._reply(pick, stale)
        if books is not None and not books.text_ended and not books.is_phrase:
            books.text_ended = True
            prompt_tokens = sum(6 + len(message.content) // 3 for message in self.prompts[-1]) if self.prompts else 0
            self.post(ev.ReplyTextEnded(books.generation, Finished("stop", Usage(prompt_tokens, 0, 1))))

    def end_sound(self, pick: int, *, stale: bool) -> None:
        books = self._reply(pick, stale)
        if books is None or not books.text_ended or books.sound_ended or books.silent:
            return
        while not books.cancelled and books.words_sounded < len(books.text.split()):
            self.sound_word(pick, stale=stale)
        books.sound_ended = True
        self.post(ev.ReplySoundEnded(books.generation, books.queued))

    def fail(self, pick: int, stage: str, *, stale: bool) -> None:
        books = self._reply(pick, stale)
        if books is not None and not books.is_phrase and not books.sound_ended:
            assert stage in ("llm", "tts")
            self.post(ev.ReplyFailed(books.generation, stage, "stage_failed", "x"))  # type: ignore[arg-type]

    def play(self, samples: int) -> None:
        """The transport takes sound, if there is one, and any that is not held back."""
        books = self.replies.get(self.current)
        if books is None or self.held or self.state.left or self.state.closed or self.state.reply is None:
            return
        taken = min(samples, books.queued - books.played)
        if taken > 0:
            books.played += taken
            self.post(ev.Played(books.generation, books.played))

    def come_back(self, number: int) -> None:
        """Somebody takes the session up, having heard some of the newest reply, or of none."""
        self.post(ev.Left(self.sample))
        if self.state.closed:
            return
        items = [item for item in conversation(self.state) if item.role == "assistant"]
        reply = self.state.reply
        last = reply.id if reply is not None else items[-1].id if items else ""
        before = [books for books in self.replies.values() if not books.is_phrase and books.heard]
        self.post(ev.Returned(last, number) if number % 3 else ev.Returned())
        assert not self.state.left
        if reply is None and len(items) == len(before) and items:
            left = {item.id: item.text for item in conversation(self.state)}
            kept = left.get(items[-1].id, "")
            assert items[-1].text.startswith(kept)
            before[-1].taken_back_to = kept

    def _reply(self, pick: int, stale: bool) -> ReplyBooks | None:
        if not self.replies:
            return None
        if stale:
            return self.replies[sorted(self.replies)[pick % len(self.replies)]]
        return self.replies[self.current]

    # What must hold after every event

    def check(self) -> None:
        assistant = [item for item in conversation(self.state) if item.role == "assistant"]
        heard = [books.heard for books in self.replies.values() if not books.is_phrase and books.heard]
        assert [item.text for item in assistant] == heard, "history is what was heard"
        ids = [item.id for item in conversation(self.state)]
        assert len(ids) == len(set(ids)), "one item per reply and per utterance"
        assert all(item.text for item in conversation(self.state)), "no empty items"
        if self.state.holding:
            assert self.held, "nobody is talked over"
        reply = self.state.reply
        if reply is not None and reply.held:
            assert self.held
            assert self.state.utterance is not None or self.state.left, "silent only while somebody else speaks"
        if not self.state.closed:
            assert self.state.next_deadline is not None, f"{self.state.phase} has no way out by itself"

    def settle(self, seconds: float = 200.0) -> None:
        """All stages are dead and the user is silent from now on; only time passes and sound is played."""
        end = self.now + seconds
        while self.now < end and self.state.phase != "listening":
            self.advance(0.1)
            self.play(1600 * 3)
            self.check()
