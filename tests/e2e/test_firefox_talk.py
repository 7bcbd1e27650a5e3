"""The page in a real Firefox on a virtual sound card: spoken to, typed to, interrupted; the replies transcribed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import jiwer
import numpy as np
import pytest
import pytest_asyncio

from app.audio import write_wav
from app.config import Settings
from app.wiring import Parley
from tests.kit.browser import loopback_media
from tests.kit.firefox import EXECUTABLE, FirefoxPage, firefox
from tests.kit.real_server import as_said, loud_part, served
from tests.kit.stages import real_parley, spoken
from tests.kit.virtual_sound import RATE_HZ, VirtualSound

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
    pytest.mark.skipif(EXECUTABLE is None and "CI" not in os.environ, reason="Firefox is not installed (firefox-esr)"),
]

_LISTENING = "document.body.dataset.state === 'listening'"


@dataclass(frozen=True, slots=True)
class _World:
    parley: Parley
    sound: VirtualSound
    page: FirefoxPage
    folder: Path

    async def say(self, text: str) -> None:
        """Begin to say ``text`` into the microphone."""
        wav = self.folder / "said.wav"
        write_wav(wav, np.pad(await spoken(self.parley.stages.tts, text), (0, 16_000)), 16_000)
        self.sound.say(wav, wait=False)

    async def type(self, text: str) -> None:
        await self.page.click("#message")
        await self.page.type(f"{text}\n")

    async def count(self, selector: str) -> int:
        return int(await self.page.evaluate(f"document.querySelectorAll({selector!r}).length"))

    async def last(self, selector: str) -> str:
        """The text of the last element."""
        return str(await self.page.evaluate(f"[...document.querySelectorAll({selector!r})].at(-1).innerText.trim()"))

    async def exchange(self, begin: Callable[[], Awaitable[None]]) -> tuple[str, str, str]:
        """Do ``begin`` and wait for the reply to it: the user's words and the reply's on the page, and what was heard."""
        answered = await self.count(".parley")
        with self.sound.recording() as recording:
            await begin()
            await self.page.until(f"document.querySelectorAll('.parley').length > {answered}", 30)
            await self.page.until(_LISTENING, 40)
            await asyncio.sleep(0.5)
        heard = await self.parley.stages.asr.transcribe(loud_part(recording.pcm, RATE_HZ), language="en")
        return await self.last(".user .said"), await self.last(".parley .said"), heard.text


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(store: Path, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[_World]:
    """One Firefox in one call with the real server."""
    # A busy machine may say "One moment." first, which is no word of the reply.
    async with real_parley(settings, assistant={"filler_after_s": 0.0}, llm={"max_tokens": 28}) as parley:
        with VirtualSound() as sound, loopback_media():
            async with served(parley, settings) as url, firefox(sound) as page:
                await page.open(url)
                await page.click("#talk")
                await page.until(_LISTENING, 20)
                yield _World(parley, sound, page, tmp_path_factory.mktemp("said"))
                assert page.errors == []


async def test_a_spoken_question_is_heard_and_answered_aloud_with_the_words_on_the_page(world: _World) -> None:
    question = "Please tell me in one short sentence why the sky is blue."
    said, reply, heard = await world.exchange(lambda: world.say(question))
    assert jiwer.wer(as_said(question), as_said(said)) <= 0.2, said
    assert jiwer.wer(as_said(reply), as_said(heard)) <= 0.15, (reply, heard)


async def test_what_is_typed_is_answered_aloud(world: _World) -> None:
    said, reply, heard = await world.exchange(lambda: world.type("How many days are in a week?"))
    assert said == "How many days are in a week?"
    assert jiwer.wer(as_said(reply), as_said(heard)) <= 0.15, (reply, heard)


async def test_speaking_over_the_reply_stops_it_and_strikes_through_what_was_not_heard(world: _World) -> None:
    await world.type("Tell me a long story about a river.")
    await world.page.until("document.querySelectorAll('.parley:last-child .heard').length > 4", 30)
    said = await world.count(".user")
    await world.say("Wait, please stop. What is the capital of France?")
    await world.page.until("document.querySelector('.parley[data-status=cancelled] .unheard') !== null", 20)
    await world.page.until(f"document.querySelectorAll('.user[data-status=done]').length > {said}", 20)
    assert "interrupted" in await world.last(".parley[data-status=cancelled]")
