"""The page in a real browser, with a spoken WAV as its microphone, the real models, and the reply transcribed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import jiwer
import numpy as np
import pytest
from playwright.async_api import Page

from app.audio import Pcm, write_wav
from app.config import Settings
from tests.kit.browser import RECORDED_RATE_HZ, chromium, loopback_media, open_page, recorded
from tests.kit.real_server import as_said, loud_part, served
from tests.kit.stages import real_parley, spoken


async def texts(page: Page, selector: str) -> list[str]:
    return [text.strip() for text in await page.locator(selector).all_inner_texts()]


async def talk(page: Page) -> tuple[str, str, Pcm]:
    """Press the button, wait for one whole exchange; user's words, reply's words, reply's sound at 16 kHz."""
    await page.click("#talk")
    await page.wait_for_function("document.body.innerText.includes('ms')", timeout=60_000)
    await page.wait_for_function(
        "() => document.querySelector('#state').textContent.toLowerCase().startsWith('listening')", timeout=60_000
    )
    await page.wait_for_timeout(500)
    user = (await texts(page, "#transcript .user .said"))[0]
    reply = (await texts(page, "#transcript .parley .said"))[0]
    played = await recorded(page)
    return user, reply, loud_part(played, RECORDED_RATE_HZ)


@pytest.mark.slow
async def test_two_browsers_are_each_heard_and_answered_aloud_and_keep_apart(
    store: Path, settings: Settings, tmp_path: Path
) -> None:
    questions = ["Why is the sky blue?", "How many days are in a week?"]
    async with real_parley(settings, llm={"max_tokens": 40}) as parley:
        wavs = []
        for number, question in enumerate(questions):
            sound = np.pad(await spoken(parley.stages.tts, question, lead_s=1.5), (0, 16_000))
            wavs.append(tmp_path / f"question{number}.wav")
            write_wav(wavs[-1], sound, 16_000)
        with loopback_media():
            async with (
                served(parley, settings) as url,
                chromium(microphone=wavs[0]) as first,
                chromium(microphone=wavs[1]) as second,
            ):
                pages = [await open_page(browser, url, record=True) for browser in (first, second)]
                exchanges = await asyncio.gather(*(talk(page) for page in pages))
        for question, (user, reply, sound) in zip(questions, exchanges, strict=True):
            assert jiwer.wer(as_said(question), as_said(user)) <= 0.15
            heard = await parley.stages.asr.transcribe(sound, language="en")
            assert jiwer.wer(as_said(reply), as_said(heard.text)) <= 0.15, (reply, heard.text)
        assert exchanges[0][1] != exchanges[1][1]
