"""Stages that answer as they did when the turn was saved, after as long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from app.asr import Transcript
from app.audio.frames import INPUT_RATE_HZ, OUTPUT_RATE_HZ, Pcm
from app.dialogue.phrasebook import PhraseBook
from app.dialogue.phrases import Phrase, phrase_text
from app.dialogue.stages import Stages, VoiceDetector
from app.errors import ContextOverflow, InvalidRequest, Overloaded, StageError, StageTimeout, StageUnavailable
from app.llm import Finished, GenerateRequest, LlmEvent, TextDelta, Usage
from app.replay.bundle import Bundle, Call
from app.telemetry.stage import StageReport

_ERRORS: dict[str, type[StageError]] = {
    error.code: error for error in (StageTimeout, StageUnavailable, Overloaded, ContextOverflow)
}
_GRACE_S = 1.0
"""Work that was cut short is expected to be cut short again; if it is not, it ends this much later."""
_LARGEST = 1e7
"""Of tokens, and of milliseconds."""
_UNKNOWN_S_PER_CHAR = 0.06
_REPORT = StageReport("replay", "as recorded", 0.0, 0.0, 0.0)


class Recorded:
    """The recorded calls of one turn. ``missed`` says for what it had no answer."""

    def __init__(self, bundle: Bundle, clock: Callable[[], float]) -> None:
        """``clock`` gives the seconds since the turn's sound began. Raises InvalidRequest for answers that cannot be."""
        for call in bundle.calls:
            _check(call)
        self._clock = clock
        self._calls = list(bundle.calls)
        self._used: set[int] = set()
        self._sounds = _sounds(bundle.calls, "tts", bundle.voice) | _sounds(bundle.calls, "phrase", bundle.phrases)
        self.missed: list[str] = []

    def stages(self, new_voice_detector: Callable[[], VoiceDetector], bundle: Bundle, *, turn_model: bool) -> Stages:
        """Voice activity is found anew; all else answers as recorded."""
        voice = [call.rate_hz for call in bundle.calls if call.stage == "tts" and call.rate_hz]
        context_tokens = bundle.settings.get("llm", {}).get("context_tokens", 4096)
        return Stages(
            new_voice_detector=new_voice_detector,
            asr=RecordedRecognizer(self),
            llm=RecordedLanguageModel(self, context_tokens),
            tts=RecordedVoice(self, voice[0] if voice else OUTPUT_RATE_HZ),
            turn=RecordedTurnDetector(self) if turn_model else None,
            phrases=RecordedPhrases(bundle.settings.get("assistant", {}).get("language", "en"), self),
        )

    def sounds(self, call: Call) -> list[Pcm]:
        return self._sounds[id(call)]

    def of(self, stage: str, fits: Callable[[Call], float | None]) -> Call | None:
        """The call that fits best (least), of those not used yet if any does; None if none fits at all."""
        found = [
            (id(call) in self._used, fit + 0.1 * abs(call.at_s - self._clock()), index, call)
            for index, call in enumerate(self._calls)
            if call.stage == stage and (fit := fits(call)) is not None
        ]
        if not found:
            return None
        call = min(found)[-1]
        self._used.add(id(call))
        return call

    def after(self, call: Call) -> Call | None:
        """The next of the same stage that was answered."""
        later = (
            other
            for other in self._calls
            if other.stage == call.stage and other.at_s >= call.at_s and other.answers and other.ending == "done"
        )
        return next(later, None)

    def miss(self, what: str) -> StageError:
        self.missed.append(what)
        return StageError(f"The recording does not hold {what}.")


def _sounds(calls: Iterable[Call], stage: str, pcm: Pcm) -> dict[int, list[Pcm]]:
    found: dict[int, list[Pcm]] = {}
    start = 0
    for call in calls:
        if call.stage == stage:
            found[id(call)] = []
            for _, samples in call.answers:
                found[id(call)].append(pcm[start : start + samples])
                start += samples
    return found


def _length_fits(samples: int) -> Callable[[Call], float | None]:
    """By how many seconds the sound that was asked about differs."""

    def fits(call: Call) -> float | None:
        recorded = call.asked.get("samples")
        return abs(recorded - samples) / INPUT_RATE_HZ if isinstance(recorded, int) else None

    return fits


async def _until_ended(call: Call) -> None:
    """Take as long as then, and fail as then."""
    await asyncio.sleep(max(0.0, (call.ended_s or call.at_s) - call.at_s))
    if call.ending == "failed":
        raise _ERRORS.get(call.error.get("code", ""), StageError)(call.error.get("message", ""))
    if not call.answers:  # it was dropped then, and should be dropped about now
        await asyncio.sleep(_GRACE_S)


class RecordedRecognizer:
    languages: tuple[str, ...] = ()

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded

    async def load(self) -> StageReport:
        return _REPORT

    async def transcribe(
        self, pcm: Pcm, *, language: str | None = None, expected: str = "", known: str = "", partial: bool = False
    ) -> Transcript:
        by_length = _length_fits(len(pcm))

        def fits(call: Call) -> float | None:
            return by_length(call) if bool(call.asked.get("partial")) == partial else None

        call = self._recorded.of("asr", fits)
        if call is not None:
            await _until_ended(call)
            call = call if call.answers else self._recorded.after(call)
        if call is None and partial:
            raise Overloaded("There was no look at these words then.")
        if call is None:
            raise self._recorded.miss("what was heard in " + _seconds(pcm))
        return _transcript(call.answers[-1][1])

    async def close(self) -> None: ...


def _transcript(answer: Any) -> Transcript:
    match answer:
        case {"text": str(text), "language": str(language)}:
            return Transcript(text, language)
    raise InvalidRequest("stages.json: an answer of asr is no transcript.")


class RecordedTurnDetector:
    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded

    async def load(self) -> StageReport:
        return _REPORT

    async def completeness(self, pcm: Pcm) -> float:
        call = self._recorded.of("turn", _length_fits(len(pcm)))
        if call is not None:
            await _until_ended(call)
            call = call if call.answers else self._recorded.after(call)
        if call is None:
            raise self._recorded.miss("a verdict on " + _seconds(pcm))
        return _verdict(call.answers[-1][1])

    async def close(self) -> None: ...


def _verdict(answer: Any) -> float:
    if isinstance(answer, bool) or not isinstance(answer, int | float) or not 0 <= answer <= 1:
        raise InvalidRequest("stages.json: an answer of turn is not between 0 and 1.")
    return float(answer)


def _seconds(pcm: Pcm) -> str:
    return f"{len(pcm) / INPUT_RATE_HZ:.1f} s of sound"


class RecordedLanguageModel:
    def __init__(self, recorded: Recorded, context_tokens: int) -> None:
        self._recorded = recorded
        self.context_tokens = context_tokens

    async def load(self) -> StageReport:
        return _REPORT

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        asked = [{"role": message.role, "content": message.content} for message in request.messages]
        last = asked[-1:] and asked[-1]["content"]

        def fits(call: Call) -> float | None:
            messages = call.asked.get("messages") or [{}]
            if call.asked.get("priority", "normal") != request.priority:
                return None
            return 0.0 if messages == asked else 10.0 if messages[-1].get("content") == last else 100.0

        call = self._recorded.of("llm", fits)
        if call is None:
            raise self._recorded.miss("an answer of the language model")
        began_s, tokens = asyncio.get_running_loop().time(), 0
        for at_s, answer in call.answers:
            await _sleep_until(began_s + at_s - call.at_s)
            event = _llm_event(answer)
            tokens += event.tokens if isinstance(event, TextDelta) else 0
            yield event
        await _sleep_until(began_s + (call.ended_s or call.at_s) - call.at_s)
        if call.ending == "failed":
            raise _ERRORS.get(call.error.get("code", ""), StageError)(call.error.get("message", ""))
        if call.ending != "done":
            await asyncio.sleep(_GRACE_S)
            self._recorded.missed.append("the rest of a reply that was broken off")
            yield Finished("cancelled", Usage(0, 0, tokens))

    async def extend(self, request: GenerateRequest) -> Usage:
        return Usage(0, 0, 0)

    async def truncate(self, session_id: str, heard_tokens: int) -> None: ...

    async def end_session(self, session_id: str) -> None: ...

    async def close(self) -> None: ...


def _check(call: Call) -> None:
    """Before anything runs: in the middle of a session it would look like a fault of the session. Of sound there are
    only counts, which were looked at with it."""
    look = {"asr": _transcript, "turn": _verdict, "llm": _llm_event}.get(call.stage)
    for _, answer in call.answers:
        if look is not None:
            look(answer)
    messages = call.asked.get("messages", [])
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise InvalidRequest("stages.json: what llm was asked are no messages.")


async def _sleep_until(at_s: float) -> None:
    await asyncio.sleep(max(0.0, at_s - asyncio.get_running_loop().time()))


def _llm_event(answer: Any) -> LlmEvent:
    match answer:
        case {"text": str(text), "tokens": int(tokens)}:
            return TextDelta(text, tokens)
        case {"finished": finished}:
            with suppress(ValidationError):
                found: Finished = TypeAdapter(Finished).validate_python(finished)
                if all(0 <= value <= _LARGEST for value in _numbers(asdict(found))):
                    return found
    raise InvalidRequest("stages.json: an answer of llm is neither text nor the end of one.")


def _numbers(of: Any) -> Iterator[float]:
    if isinstance(of, dict):
        for value in of.values():
            yield from _numbers(value)
    elif isinstance(of, int | float):
        yield of


class RecordedVoice:
    voices: tuple[str, ...] = ()
    default_voice = ""
    speeds = (1.0, 1.0)

    def __init__(self, recorded: Recorded, rate_hz: int) -> None:
        self._recorded = recorded
        self.rate_hz = rate_hz

    async def load(self) -> StageReport:
        return _REPORT

    async def synthesize(
        self, text: str, *, slack_s: float = 0.0, voice: str = "", speed: float | None = None
    ) -> AsyncGenerator[Pcm, None]:
        call = self._recorded.of("tts", lambda call: 0.0 if call.asked.get("text") == text else None)
        if call is None:
            raise self._recorded.miss(f"the sound of {text[:60]!r}")
        began_s = asyncio.get_running_loop().time()
        for (at_s, _), chunk in zip(call.answers, self._recorded.sounds(call), strict=True):
            await _sleep_until(began_s + at_s - call.at_s)
            yield chunk
        await _sleep_until(began_s + (call.ended_s or call.at_s) - call.at_s)
        if call.ending == "failed":
            raise _ERRORS.get(call.error.get("code", ""), StageError)(call.error.get("message", ""))
        if call.ending != "done":
            await asyncio.sleep(_GRACE_S)

    async def close(self) -> None: ...


class RecordedPhrases(PhraseBook):
    """A line that was not spoken then is silence, as long as it might be."""

    def __init__(self, language: str, recorded: Recorded) -> None:
        super().__init__("en" if language == "auto" else language, {})
        self._recorded = recorded

    def sound(self, phrase: Phrase) -> Pcm:
        call = self._recorded.of("phrase", lambda call: 0.0 if call.asked.get("phrase") == phrase.value else None)
        if call is not None:
            return np.concatenate([np.zeros(0, np.int16), *self._recorded.sounds(call)])
        text = phrase_text(phrase, self.language)
        self._recorded.missed.append(f"the sound of {text!r}")
        return np.zeros(int(len(text) * _UNKNOWN_S_PER_CHAR * OUTPUT_RATE_HZ), np.int16)
