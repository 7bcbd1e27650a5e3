"""From settings to running stages: the one place that knows every concrete backend."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from app.asr import Recognizer
from app.audio.echo import EchoGuard
from app.audio.turn import SmartTurn, TurnDetector
from app.audio.vad import VoiceActivity, load_vad
from app.catalog import Kind, model_path
from app.config import Settings
from app.config.settings import RuntimeSettings
from app.dialogue.host import Host
from app.dialogue.phrasebook import PhraseBook
from app.dialogue.stages import Stages
from app.llm import LanguageModel
from app.telemetry.scheduling import favour_the_loop
from app.telemetry.stage import StageReport
from app.tts import Synthesizer

OnReport = Callable[[StageReport], None]


class _Stage(Protocol):
    async def load(self) -> StageReport: ...

    async def close(self) -> None: ...


AnyStage = TypeVar("AnyStage", bound=_Stage)


@dataclass(frozen=True, slots=True)
class Parley:
    """Everything loaded and warm: open sessions through ``host``."""

    host: Host
    stages: Stages
    reports: tuple[StageReport, ...]


@asynccontextmanager
async def build(settings: Settings, on_report: OnReport = lambda report: None) -> AsyncIterator[Parley]:
    """Load and warm up all stages; ``on_report`` is called as each becomes ready.

    Raises ModelError or StageError naming what could not be loaded; what was loaded is closed again.
    On leaving, sessions are ended first, then the stages.
    """
    favour_the_loop()
    runtime = with_threads(settings.runtime, os.cpu_count() or 1)
    reports: list[StageReport] = []

    def report(done: StageReport) -> None:
        reports.append(done)
        on_report(done)

    async with AsyncExitStack() as stack:

        async def load(stage: AnyStage) -> AnyStage:
            stack.push_async_callback(stage.close)
            report(await stage.load())
            return stage

        async def load_detector() -> Callable[[], VoiceActivity]:
            model, done = await asyncio.to_thread(load_vad, settings.vad)
            report(done)
            if settings.audio.echo_guard:
                await asyncio.to_thread(EchoGuard)  # opens the canceller's library, which the first call would wait for
            return partial(VoiceActivity, model, settings.vad)

        async def load_voice() -> tuple[Synthesizer, PhraseBook]:
            voice = await load(_synthesizer(settings, runtime))
            return voice, await PhraseBook.prepare(voice, _spoken_language(settings))

        try:
            async with asyncio.TaskGroup() as group:
                # The worker loads in its own process meanwhile. The others share this one and go one by one,
                # or nobody could tell whose memory is whose.
                worker = group.create_task(load(_language_model(settings, runtime)))
                detector = await load_detector()
                turn = await load(model) if (model := _turn_detector(settings)) else None
                tts, phrases = await load_voice()
                asr = await load(_recognizer(settings, runtime))
                llm = await worker
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        host = Host(Stages(detector, asr, llm, tts, turn, phrases), settings)
        stack.push_async_callback(host.close)
        yield Parley(host, host.stages, tuple(reports))


@dataclass(frozen=True, slots=True)
class Thinking:
    """The language model alone, loaded and warm."""

    llm: LanguageModel
    reports: tuple[StageReport, ...]


@asynccontextmanager
async def build_language_model(
    settings: Settings, on_report: OnReport = lambda report: None
) -> AsyncIterator[Thinking]:
    """Without hearing and speech, for who only uses the API. Raises ModelError or StageError."""
    alone = settings.runtime.model_copy(update={"llm_nice": 0})
    llm = _language_model(settings, with_threads(alone, os.cpu_count() or 1))
    try:
        report = await llm.load()
        on_report(report)
        yield Thinking(llm, (report,))
    finally:
        await llm.close()


def with_threads(runtime: RuntimeSettings, cores: int) -> RuntimeSettings:
    """Thread counts where the settings leave them open (0).

    A single conversation uses one stage at a time, so the two heavy stages may each use all cores;
    the voice needs one.
    """
    return runtime.model_copy(
        update={
            "llm_threads": runtime.llm_threads or cores,
            "asr_threads": runtime.asr_threads or cores,
            "tts_threads": runtime.tts_threads or max(1, cores // 2),
        }
    )


def _spoken_language(settings: Settings) -> str:
    """Of Parley's own lines. Hibari speaks English only."""
    language = settings.assistant.language
    return "en" if language == "auto" or settings.tts.backend == "hibari" else language


def _folder(settings: Settings, name: str, kind: Kind) -> Path:
    return model_path(name, settings.runtime.model_store, kind=kind)


def _language_model(settings: Settings, runtime: RuntimeSettings) -> LanguageModel:
    if settings.llm.backend == "openai":
        from app.llm.openai import OpenAILanguageModel

        return OpenAILanguageModel(settings.llm)
    from app.llm.local import LocalLanguageModel

    return LocalLanguageModel(settings.llm, runtime, _folder(settings, settings.llm.model, "llm"))


def _recognizer(settings: Settings, runtime: RuntimeSettings) -> Recognizer:
    if settings.asr.backend == "openai":
        from app.asr.openai import OpenAIRecognizer

        return OpenAIRecognizer(settings.asr)
    from app.asr.faster_whisper import FasterWhisperRecognizer

    return FasterWhisperRecognizer(settings.asr, runtime, _folder(settings, settings.asr.model, "asr"))


def _synthesizer(settings: Settings, runtime: RuntimeSettings) -> Synthesizer:
    tts = settings.tts
    match tts.backend:
        case "hibari":
            from app.tts.hibari import HibariSynthesizer

            return HibariSynthesizer(tts, runtime, None)
        case "piper":
            from app.tts.piper import PiperSynthesizer

            return PiperSynthesizer(tts, runtime, _folder(settings, tts.model or "piper-joe", "tts"))
        case "coqui":
            from app.tts.coqui import CoquiSynthesizer

            return CoquiSynthesizer(tts, runtime, None)
        case "openai":
            from app.tts.openai import OpenAISynthesizer

            return OpenAISynthesizer(tts, runtime, None)


def _turn_detector(settings: Settings) -> TurnDetector | None:
    if settings.turn.backend == "silence":
        return None
    return SmartTurn(_folder(settings, settings.turn.model, "turn"))
