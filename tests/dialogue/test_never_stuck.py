"""Each stage fails, stalls or says nothing, in each state: something is heard, and the next turn works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from app.asr import Transcript
from app.audio.frames import Pcm
from app.errors import StageUnavailable
from app.llm import GenerateRequest, LlmEvent, Usage
from tests.kit.script import FakeLanguageModel, FakeRecognizer, FakeTurnModel, FakeVoice, Script
from tests.kit.virtual_time import run_virtual

STORY = "Here is a story, it goes on and on for quite a while. It has a second sentence, and then a third one too."


class Breakable:
    """Works until ``how`` is set: "fails", "stalls" or "says nothing"."""

    how = ""

    async def trouble(self) -> bool:
        if self.how == "fails":
            raise StageUnavailable("gone")
        if self.how == "stalls":
            await asyncio.sleep(1e5)
        return self.how == "says nothing"


class BreakableRecognizer(Breakable, FakeRecognizer):
    async def transcribe(
        self, pcm: Pcm, *, language: str | None = None, expected: str = "", known: str = "", partial: bool = False
    ) -> Transcript:
        if await self.trouble():
            return Transcript("", "en")
        return await super().transcribe(pcm, language=language, expected=expected, known=known, partial=partial)


class BreakableModel(Breakable, FakeLanguageModel):
    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        silent = await self.trouble()
        async for event in super().generate(request):
            if not (silent := silent or await self.trouble()):
                yield event

    async def extend(self, request: GenerateRequest) -> Usage:
        await self.trouble()
        return await super().extend(request)


class BreakableVoice(Breakable, FakeVoice):
    async def synthesize(
        self, text: str, *, slack_s: float = 0.0, voice: str = "", speed: float | None = None
    ) -> AsyncGenerator[Pcm, None]:
        if not await self.trouble():
            async for pcm in super().synthesize(text, voice=voice, speed=speed):
                yield pcm


class BreakableTurnModel(Breakable, FakeTurnModel):
    async def completeness(self, pcm: Pcm) -> float:
        return 0.0 if await self.trouble() else await super().completeness(pcm)


async def _while_the_user_speaks(script: Script, break_it: Callable[[], None]) -> None:
    speaking = script.loop.create_task(script.speak(1.6))
    await script.wait(0.8)
    break_it()
    await speaking


async def _in_the_pause(script: Script, break_it: Callable[[], None]) -> None:
    await script.speak(0.6)
    await script.wait(0.15)
    break_it()


async def _while_it_speaks(script: Script, break_it: Callable[[], None]) -> None:
    await script.speak(0.6)
    await script.until(lambda: script.phase == "speaking")
    break_it()


async def _while_the_user_interrupts(script: Script, break_it: Callable[[], None]) -> None:
    await _while_it_speaks(script, lambda: None)
    await script.wait(0.6)
    speaking = script.loop.create_task(script.speak(1.0))
    await script.wait(0.3)
    break_it()
    await speaking


WHEN: dict[str, Callable[[Script, Callable[[], None]], Awaitable[None]]] = {
    "while the user speaks": _while_the_user_speaks,
    "in the pause": _in_the_pause,
    "while it speaks": _while_it_speaks,
    "while the user interrupts": _while_the_user_interrupts,
}


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("how", ["fails", "stalls", "says nothing"])
@pytest.mark.parametrize("stage", ["asr", "llm", "tts", "turn"])
def test_whatever_breaks_whenever_it_does_the_talk_goes_on(stage: str, how: str, when: str) -> None:
    async def conversation() -> None:
        asr = BreakableRecognizer(["tell me a story", "tell me another", "are you still alive today"])
        llm = BreakableModel(replies=[[STORY], [STORY], ["Yes I am."]], token_s=0.05)
        voice, turn = BreakableVoice(), BreakableTurnModel()
        async with Script(asr=asr, llm=llm, tts=voice, turn=turn) as script:
            broken: Breakable = {"asr": asr, "llm": llm, "tts": voice, "turn": turn}[stage]  # type: ignore[assignment]

            def break_it() -> None:
                broken.how = how

            await WHEN[when](script, break_it)
            took = await script.until(lambda: script.phase == "listening", 40.0)
            assert took < 40.0
            spoke = any(frame.any() for frame in script.heard)
            nothing_said = bool(script.told("conversation.item.input_audio_transcription.failed"))
            assert spoke or (nothing_said and how == "says nothing"), "a line, unless there were no words"
            broken.how = ""
            asr.texts[:] = ["are you still alive today"]
            llm.replies[:] = [["Yes I am."]]
            await script.speak(0.6)
            await script.until(
                lambda: script.phase == "listening" and script.history[-1:] == [("assistant", "Yes I am.")]
            )
            assert script.history[-2][0] == "user"
            assert llm.running == 0

    run_virtual(conversation())
