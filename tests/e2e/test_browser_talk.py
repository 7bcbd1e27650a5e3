"""The page in a real browser, with a spoken WAV as its microphone, the real models, and the reply transcribed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import jiwer
import numpy as np
import pytest
from playwright.async_api import Page, expect

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
    await expect(page.locator(".parley .foot")).to_contain_text("Answered in", timeout=60_000)
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


@pytest.mark.slow
async def test_a_refresh_in_mid_reply_loses_nothing_of_the_conversation_and_the_reply_is_gone_on_with(
    store: Path, settings: Settings, tmp_path: Path
) -> None:
    """Under the policy of autoplay that browsers have by default: sound wants a click, and gets it."""
    question = "Tell me a story about a river."
    silence = tmp_path / "silence.wav"
    write_wav(silence, np.zeros(16_000, np.int16), 16_000)
    async with real_parley(settings, assistant={"filler_after_s": 0.0}, llm={"max_tokens": 45}) as parley:
        with loopback_media():
            async with served(parley, settings) as url, chromium(microphone=silence, autoplay=False) as browser:
                page = await open_page(browser, url, record=True)
                await page.click("#talk")
                await page.locator("body[data-phase=call]").wait_for(timeout=20_000)
                await page.fill("#message", question)
                await page.press("#message", "Enter")
                await page.wait_for_function("document.querySelectorAll('.parley .heard').length > 9", timeout=30_000)
                await page.reload()
                await page.locator("body[data-phase=left]").wait_for(timeout=20_000)
                known = (await texts(page, ".parley .said"))[0].split()
                heard_before = len("".join(await page.locator(".parley .heard").all_text_contents()).split())
                assert heard_before < len(known), "the refresh came in mid-reply"
                await page.click("#talk")
                await page.locator("body[data-state=listening] .parley[data-status=completed]").wait_for(timeout=60_000)
                await page.wait_for_timeout(500)
                assert await texts(page, ".user .said") == [question]
                await expect(page.locator(".parley")).to_have_count(1)
                await expect(page.locator(".parley .unheard")).to_have_count(0)
                reply = as_said((await texts(page, ".parley .said"))[0]).split()
                sound = loud_part(await recorded(page), RECORDED_RATE_HZ)
        heard = as_said((await parley.stages.asr.transcribe(sound, language="en")).text).split()
    assert len(reply) - heard_before <= len(heard) + 1, "all is said that had not been heard"
    assert len(heard) < len(reply), "what had been heard is not said again from its beginning"
    assert jiwer.wer(" ".join(reply[-len(heard) :]), " ".join(heard)) <= 0.2, (reply, heard)
