"""A scripted conversation: the real session on fake stages, in virtual time.

The user's speech is sound whose samples are not zero; what the recogniser makes of it is scripted, as
are the language model's answers. The voice speaks every character for ``MS_PER_CHAR``, so that
tests know to the sample which words have been heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.asr import Transcript
from app.audio.frames import FRAME_MS, INPUT_FRAME, INPUT_RATE_HZ, OUTPUT_FRAME, OUTPUT_RATE_HZ, Pcm
from app.audio.vad import SpeechStarted, SpeechStopped, VadEvent
from app.config import Settings
from app.dialogue.options import SessionOptions
from app.dialogue.phrasebook import PhraseBook
from app.dialogue.session import Session
from app.dialogue.stages import Stages
from app.errors import ContextOverflow
from app.llm import Finished, GenerateRequest, LanguageModel, LlmEvent, TextDelta, Usage
from app.llm.base import FinishReason
from app.telemetry.stage import StageReport
from app.telemetry.turns import KeptTurns
from app.tts.base import SPEEDS, known_voice

MS_PER_CHAR = 40
_REPORT = StageReport("fake", "scripted", 0.0, 0.0, 0.0)


class LoudnessDetector:
    """Speech is whatever is not silence; stops after ``silence_ms`` of it, like the real one."""

    def __init__(self, silence_ms: int) -> None:
        self._silence = silence_ms * 16
        self._position = 0
        self._speech_end = 0
        self._speaking = False
        self.probability = 0.0

    def push(self, frame: Pcm) -> tuple[VadEvent, ...]:
        self.probability = float(frame.any())
        start = self._position
        self._position += len(frame)
        if frame.any():
            self._speech_end = self._position
            if not self._speaking:
                self._speaking = True
                return (SpeechStarted(start),)
        elif self._speaking and self._position - self._speech_end >= self._silence:
            self._speaking = False
            return (SpeechStopped(self._speech_end),)
        return ()


@dataclass
class FakeRecognizer:
    """Answers with the next of ``texts`` (or what ``hear`` makes of the sound) after ``delay_s``.

    A look at an utterance that goes on (``going_on``) gets the next of ``previews``, or as much of the text to come as
    was said of it at four words a second.
    """

    texts: list[str] = field(default_factory=list)
    languages: tuple[str, ...] = ("en",)
    delay_s: float = 0.1
    error: Exception | None = None
    calls: list[int] = field(default_factory=list)
    hear: Callable[[Pcm], str] | None = None
    previews: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    """What each transcription of a whole utterance was told to begin with."""
    going_on: Callable[[], bool] = lambda: False

    async def load(self) -> StageReport:
        return _REPORT

    async def transcribe(
        self, pcm: Pcm, *, language: str | None = None, expected: str = "", known: str = "", partial: bool = False
    ) -> Transcript:
        going_on = self.going_on()
        if not going_on:
            self.calls.append(len(pcm))
            self.known.append(known)
        await asyncio.sleep(self.delay_s)
        if self.error is not None:
            raise self.error
        if going_on and self.hear is None:
            return Transcript(self._so_far(len(pcm) / INPUT_RATE_HZ), "en")
        if self.hear is not None:
            return Transcript(self.hear(pcm), "en")
        return Transcript(self.texts.pop(0) if self.texts else "", "en")

    def _so_far(self, seconds: float) -> str:
        if self.previews:
            return self.previews.pop(0)
        words = self.texts[0].split(" ") if self.texts else []
        return " ".join(words[: int(seconds * 4)])

    async def close(self) -> None: ...


@dataclass
class FakeLanguageModel:
    """Streams the next of ``replies`` word by word. An item of a reply may be text, a pause in s, or an error.

    ``summaries`` are for requests of low priority. A prompt counts a token for each four characters, and one
    longer than ``context_tokens`` leaves room for is refused, as the worker does it.
    """

    replies: list[list[str | float | Exception]] = field(default_factory=list)
    summaries: list[list[str | float | Exception]] = field(default_factory=list)
    context_tokens: int = 4096
    finish_reason: FinishReason = "stop"
    first_token_s: float = 0.05
    token_s: float = 0.01
    requests: list[GenerateRequest] = field(default_factory=list)
    drafts: list[GenerateRequest] = field(default_factory=list)
    tokens_sent: int = 0
    running: int = 0
    ended_sessions: list[str] = field(default_factory=list)

    async def load(self) -> StageReport:
        return _REPORT

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        self.requests.append(request)
        self.running += 1
        try:
            prompt_tokens = sum(6 + len(message.content) // 4 for message in request.messages)
            if prompt_tokens + (request.sampling.max_tokens or 1) > self.context_tokens:
                raise ContextOverflow(f"{prompt_tokens} tokens")
            await asyncio.sleep(self.first_token_s)
            sent = 0
            script = self.summaries if request.priority == "low" else self.replies
            for part in script.pop(0) if script else ["All right."]:
                if isinstance(part, Exception):
                    raise part
                if isinstance(part, float):
                    await asyncio.sleep(part)
                    continue
                for word in part.split(" "):
                    await asyncio.sleep(self.token_s)
                    self.tokens_sent += 1
                    yield TextDelta(word if sent == 0 else f" {word}")
                    sent += 1
            yield Finished(self.finish_reason, Usage(prompt_tokens, 0, sent))
        finally:
            self.running -= 1

    async def extend(self, request: GenerateRequest) -> Usage:
        self.drafts.append(request)
        return Usage(0, 0, 0)

    async def truncate(self, session_id: str, heard_tokens: int) -> None: ...

    async def end_session(self, session_id: str) -> None:
        self.ended_sessions.append(session_id)

    async def close(self) -> None: ...


@dataclass
class FakeVoice:
    """Every character sounds for MS_PER_CHAR, after ``delay_s``. Raises ``error`` instead if there is one."""

    rate_hz: int = OUTPUT_RATE_HZ
    delay_s: float = 0.02
    error: Exception | None = None
    spoken: list[str] = field(default_factory=list)
    stall: bool = False
    voices: tuple[str, ...] = ("one", "two")
    default_voice: str = "one"
    speeds: tuple[float, float] = SPEEDS
    manners: list[tuple[str, float | None]] = field(default_factory=list)
    """Voice and speed of each clause in ``spoken``, as they were asked for."""

    async def load(self) -> StageReport:
        return _REPORT

    async def synthesize(
        self, text: str, *, slack_s: float = 0.0, voice: str = "", speed: float | None = None
    ) -> AsyncGenerator[Pcm, None]:
        known_voice(voice, self.voices, self.default_voice)
        await asyncio.sleep(self.delay_s)
        if self.error is not None:
            raise self.error
        if self.stall:
            await asyncio.sleep(1e6)
        self.spoken.append(text)
        self.manners.append((voice, speed))
        yield np.full(len(text) * MS_PER_CHAR * self.rate_hz // 1000, 1000, np.int16)

    async def close(self) -> None: ...


@dataclass
class FakeTurnModel:
    completeness_value: float = 1.0
    delay_s: float = 0.02

    async def completeness(self, pcm: Pcm) -> float:
        await asyncio.sleep(self.delay_s)
        return self.completeness_value


class Script:
    """One session with its world. Use as an async context manager inside ``run_virtual``."""

    def __init__(
        self,
        *,
        asr: FakeRecognizer | None = None,
        llm: LanguageModel | None = None,
        tts: FakeVoice | None = None,
        turn: FakeTurnModel | None = None,
        pace: float = 1.0,
        options: SessionOptions = SessionOptions(),
        kept: KeptTurns | None = None,
        **overrides: dict[str, Any],
    ) -> None:
        """``pace`` lets sound be played faster than it sounds, for stages that live in real time."""
        self._frame_s = FRAME_MS / 1000 / pace
        self._options = options
        self._kept = kept
        self.asr = asr or FakeRecognizer()
        self.llm = llm or FakeLanguageModel()
        self.tts = tts or FakeVoice()
        self.turn = turn or FakeTurnModel()
        # A trailing underscore tells a section from the stage of the same name.
        sections = {key.rstrip("_"): value for key, value in overrides.items()}
        # Scripted sound is one number repeated: whose voice it is cannot be told from it.
        sections["audio"] = {"echo_guard": False} | sections.get("audio", {})
        self.settings = Settings.model_validate(sections)
        self.events: list[dict[str, Any]] = []
        self.event_times: list[float] = []
        self.heard: list[Pcm] = []
        self.reply_words: list[tuple[tuple[int, int], ...]] = []
        """Word ends of the first reply, as its voice placed them."""
        self._frozen = False
        self.playing = True
        """False: the transport has stopped taking sound."""

    async def __aenter__(self) -> Script:
        self.loop = asyncio.get_running_loop()
        voice_ok = FakeVoice()
        phrases = await PhraseBook.prepare(voice_ok, "en")
        stages = Stages(
            new_voice_detector=lambda: LoudnessDetector(self.settings.vad.silence_ms),
            asr=self.asr,
            llm=self.llm,
            tts=self.tts,
            turn=self.turn,
            phrases=phrases,
        )
        self.asr.going_on = self._user_is_speaking
        self.session = Session("sess_test", stages, self.settings, self._on_event, self._options, kept=self._kept)
        await self.session.started()
        self._clock = self.loop.create_task(self._transport())
        self._say_until = 0.0
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close("test over")
        self._clock.cancel()

    def _on_event(self, event: Any) -> None:
        self.events.append(dict(event))
        self.event_times.append(self.loop.time())

    async def _transport(self) -> None:
        silence, speech = np.zeros(INPUT_FRAME, np.int16), np.full(INPUT_FRAME, 5000, np.int16)
        next_at = self.loop.time()
        while True:
            self.session.push_audio(speech if self.loop.time() < self._say_until - 1e-9 else silence)
            if self.playing:
                frame = self.session.playout.read(OUTPUT_FRAME)
                if not self._frozen:
                    self.heard.append(frame)
            reply = self.session.state.reply
            if reply is not None and reply.generation == 1:
                self.reply_words = list(reply.clauses)
            next_at += self._frame_s
            await asyncio.sleep(next_at - self.loop.time())

    def _user_is_speaking(self) -> bool:
        utterance = self.session.state.utterance
        return utterance is not None and utterance.speaking

    # What the user does

    async def speak(self, seconds: float) -> None:
        """Make sound for ``seconds`` and return when it ends."""
        self._say_until = self.loop.time() + seconds
        await asyncio.sleep(seconds)

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def until(self, condition: Callable[[], bool], timeout_s: float = 30.0) -> float:
        """Wait for ``condition``; the seconds it took. Fails after ``timeout_s``."""
        began = self.loop.time()
        while not condition():
            if self.loop.time() - began > timeout_s:
                raise AssertionError(f"not within {timeout_s} s; last events: {self.events[-6:]}")
            await asyncio.sleep(0.01)
        return self.loop.time() - began

    async def until_event(self, type: str, *, count: int = 1, timeout_s: float = 30.0) -> dict[str, Any]:
        await self.until(lambda: len(self.told(type)) >= count, timeout_s)
        return self.told(type)[count - 1]

    # What can be seen

    def told(self, type: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == type]

    @property
    def phase(self) -> str:
        return self.session.state.phase

    @property
    def history(self) -> list[tuple[str, str]]:
        return [(item.role, item.text) for item in self.session.state.history]

    def freeze_heard(self) -> None:
        """Keep ``heard`` as it is from now on."""
        self._frozen = True

    def silent_for(self, seconds: float) -> bool:
        frames = int(seconds * 1000 / FRAME_MS)
        return not any(frame.any() for frame in self.heard[-frames:])
