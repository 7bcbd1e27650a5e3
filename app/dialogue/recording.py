"""What a session keeps of its turns, so that one can be saved and run again.

Stages are wrapped, so that what they are asked and answer is noted where it happens and nothing else knows of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from app.asr import Recognizer, Transcript
from app.audio.frames import OUTPUT_RATE_HZ, Pcm
from app.audio.turn import TurnDetector
from app.dialogue.options import SessionOptions
from app.dialogue.phrasebook import PhraseBook
from app.dialogue.phrases import Phrase
from app.dialogue.ports import WireEvent
from app.dialogue.stages import Stages
from app.dialogue.state import Item, State
from app.errors import ParleyError
from app.llm import ChatMessage, Finished, GenerateRequest, LanguageModel, LlmEvent, TextDelta, Usage
from app.telemetry.stage import StageReport
from app.telemetry.turns import StageCall, Tape
from app.telemetry.turns.config import model_name
from app.tts import Synthesizer

_UNTOLD = frozenset({"parley.ping", "parley.pong"})


@dataclass(frozen=True, slots=True)
class Past:
    """A conversation that a session goes on with. As in ``State`` and ``Memory``."""

    history: tuple[Item, ...] = ()
    items: int = 0
    start: int = 0
    summary: str = ""
    summarised_to: int = 0
    left_out: bool = False

    def taken_up(self, state: State) -> State:
        memory = replace(
            state.memory,
            start=self.start,
            summary=self.summary,
            summarised_to=self.summarised_to,
            left_out=self.left_out,
        )
        return replace(state, history=self.history, items=self.items, memory=memory)


class TurnRecorder:
    """Of one session. Its methods are called as things happen, on the event loop."""

    def __init__(self, tape: Tape, options: Callable[[], SessionOptions]) -> None:
        self.tape = tape
        self._options = options
        self._state: State | None = None
        """When the turn under way began, or as it is while none is."""
        self._last: State | None = None
        """As it was after the event before."""
        self._began_s: float | None = None
        """When the newest utterance began, if the newest reply is not an answer to it."""
        self._answered_s: float | None = None
        """When the utterance began that the newest reply answers."""
        self._goes_on = False
        """The newest utterance goes on with that one."""

    def received(self, event: WireEvent) -> None:
        """From the client."""
        if isinstance(kind := event.get("type"), str) and kind not in _UNTOLD:
            self.tape.note("client", event)

    def told(self, event: WireEvent, state: State) -> None:
        """To the client. ``state`` is that after the event."""
        if event["type"] in _UNTOLD:
            return
        self.tape.note("server", _without_secrets(event))
        if event["type"] == "response.done":
            self._turn_done(event["response"]["id"], state)
        elif event["type"] == "response.created":
            self._answered_s = self._began_s if self._began_s is not None else self._answered_s
            self._began_s = None
            self._goes_on = False

    def settled(self, state: State) -> None:
        """All that followed from an event has been done."""
        utterance_before = self._last.utterance if self._last is not None else None
        if state.utterance is not None and utterance_before is None:
            self._goes_on = state.utterance.reopened and self._answered_s is not None
            self._began_s = self._answered_s if self._goes_on else state.utterance.began
        self._last = state
        if state.utterance is None and state.reply is None and not state.typed:
            self.tape.idle()
            self._state = state
        elif not self.tape.taking:
            self.tape.begin()
            self._state = self._state or state

    def _turn_done(self, response_id: str, state: State) -> None:
        began = self._state or state
        history, memory, items, options = began.history, began.memory, began.items, self._options()

        def describe() -> Mapping[str, Any]:
            """Only read when the turn is saved: histories are long, and few turns are."""
            return {
                "options": asdict(options),
                "items": items,
                "history": [asdict(item) for item in history],
                "memory": {
                    "start": memory.start,
                    "summary": memory.summary,
                    "summarised_to": memory.summarised_to,
                    "left_out": memory.left_out,
                },
            }

        nbytes = sum(len(item.text) + len(item.unheard) for item in history) + len(memory.summary)
        self.tape.turn_done(response_id, describe, nbytes)
        if self._goes_on:
            self._state = began
        else:
            self._state = replace(state, history=_history_then(state, self._last or state, response_id))
        if self._began_s is not None:  # they began over the reply
            self.tape.begin(self._began_s, goes_on=self._goes_on)


def _history_then(state: State, last: State, response_id: str) -> tuple[Item, ...]:
    """The history as the next turn finds it: with what was heard of the reply that is over, and without the words
    for which it may have been given up, which are that turn's own."""
    known = {item.id: item for item in last.history}
    return tuple(known.get(item.id, item) for item in state.history if item.id in known or item.id == response_id)


def _without_secrets(event: WireEvent) -> WireEvent:
    """Without the token, and without the folder that the model lies in."""
    session = event.get("session")
    if not isinstance(session, Mapping):
        return event
    kept = {key: value for key, value in session.items() if key != "resume"}
    return {**event, "session": {**kept, "model": model_name(str(kept.get("model", "")))}}


# The stages


def recorded(stages: Stages, tape: Tape) -> Stages:
    """``stages`` whose answers to one session are noted on its tape."""
    return replace(
        stages,
        asr=_Recognizer(stages.asr, tape),
        llm=_LanguageModel(stages.llm, tape),
        tts=_Synthesizer(stages.tts, tape),
        turn=None if stages.turn is None else _TurnDetector(stages.turn, tape),
        phrases=_Phrases(stages.phrases, tape),
    )


@contextmanager
def _noted(tape: Tape, call: StageCall) -> Iterator[None]:
    try:
        yield
    except (asyncio.CancelledError, GeneratorExit):
        tape.end(call, "cut")
        raise
    except Exception as error:
        code = error.code if isinstance(error, ParleyError) else "internal_error"
        tape.end(call, "failed", {"code": code, "message": str(error)})
        raise
    else:
        tape.end(call, "done")


class _Recognizer:
    def __init__(self, asr: Recognizer, tape: Tape) -> None:
        self._asr = asr
        self._tape = tape

    @property
    def languages(self) -> tuple[str, ...]:
        return self._asr.languages

    async def load(self) -> StageReport:
        return await self._asr.load()

    async def transcribe(
        self, pcm: Pcm, *, language: str | None = None, expected: str = "", known: str = "", partial: bool = False
    ) -> Transcript:
        asked = {"samples": len(pcm), "language": language, "expected": expected, "known": known, "partial": partial}
        call = self._tape.call("asr", asked)
        with _noted(self._tape, call):
            found = await self._asr.transcribe(pcm, language=language, expected=expected, known=known, partial=partial)
            self._tape.answer(call, asdict(found))
            return found

    async def close(self) -> None:
        await self._asr.close()


class _TurnDetector:
    def __init__(self, turn: TurnDetector, tape: Tape) -> None:
        self._turn = turn
        self._tape = tape

    async def load(self) -> StageReport:
        return await self._turn.load()

    async def completeness(self, pcm: Pcm) -> float:
        call = self._tape.call("turn", {"samples": len(pcm)})
        with _noted(self._tape, call):
            found = await self._turn.completeness(pcm)
            self._tape.answer(call, found)
            return found

    async def close(self) -> None:
        await self._turn.close()


class _LanguageModel:
    def __init__(self, llm: LanguageModel, tape: Tape) -> None:
        self._llm = llm
        self._tape = tape

    @property
    def context_tokens(self) -> int:
        return self._llm.context_tokens

    async def load(self) -> StageReport:
        return await self._llm.load()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        asked = {"messages": [_message(message) for message in request.messages], "priority": request.priority}
        call = self._tape.call("llm", asked)
        with _noted(self._tape, call):
            async with aclosing(self._llm.generate(request)) as events:
                async for event in events:
                    self._tape.answer(call, _event(event))
                    yield event

    async def extend(self, request: GenerateRequest) -> Usage:
        return await self._llm.extend(request)

    async def truncate(self, session_id: str, heard_tokens: int) -> None:
        await self._llm.truncate(session_id, heard_tokens)

    async def end_session(self, session_id: str) -> None:
        await self._llm.end_session(session_id)

    async def close(self) -> None:
        await self._llm.close()


def _message(message: ChatMessage) -> dict[str, str]:
    return {"role": message.role, "content": message.content}


def _event(event: LlmEvent) -> dict[str, Any]:
    match event:
        case TextDelta():
            return {"text": event.text, "tokens": event.tokens}
        case Finished():
            return {"finished": asdict(event)}
        case other:
            return {"tool_call": asdict(other)}


class _Synthesizer:
    def __init__(self, tts: Synthesizer, tape: Tape) -> None:
        self._tts = tts
        self._tape = tape

    @property
    def rate_hz(self) -> int:
        return self._tts.rate_hz

    @property
    def voices(self) -> tuple[str, ...]:
        return self._tts.voices

    @property
    def default_voice(self) -> str:
        return self._tts.default_voice

    @property
    def speeds(self) -> tuple[float, float]:
        return self._tts.speeds

    async def load(self) -> StageReport:
        return await self._tts.load()

    async def synthesize(
        self, text: str, *, slack_s: float = 0.0, voice: str = "", speed: float | None = None
    ) -> AsyncGenerator[Pcm, None]:
        call = self._tape.call("tts", {"text": text, "slack_s": round(slack_s, 3), "voice": voice, "speed": speed})
        call.rate_hz = self._tts.rate_hz
        with _noted(self._tape, call):
            async with aclosing(self._tts.synthesize(text, slack_s=slack_s, voice=voice, speed=speed)) as chunks:
                async for chunk in chunks:
                    self._tape.answer(call, chunk)
                    yield chunk

    async def close(self) -> None:
        await self._tts.close()


class _Phrases(PhraseBook):
    def __init__(self, phrases: PhraseBook, tape: Tape) -> None:
        super().__init__(phrases.language, {})
        self._phrases = phrases
        self._tape = tape

    def sound(self, phrase: Phrase) -> Pcm:
        sound = self._phrases.sound(phrase)
        call = self._tape.call("phrase", {"phrase": phrase.value})
        call.rate_hz = OUTPUT_RATE_HZ
        self._tape.answer(call, sound)
        self._tape.end(call, "done")
        return sound
