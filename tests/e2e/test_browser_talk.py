"""The page in a real browser, with a spoken WAV as its microphone, the real models, and the reply transcribed."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import jiwer
import numpy as np
import pytest
from playwright.async_api import Page

from app.audio import Pcm, resample, write_wav
from app.config import Settings
from app.server import bind, create_app, serve
from app.transports.webrtc import WebRtcCalls
from app.tts.speakable import speakable
from app.wiring import Parley
from tests.kit.browser import RECORDED_RATE_HZ, chromium, loopback_media, open_page, recorded
from tests.kit.stages import real_parley, spoken


def plain(text: str) -> str:
    """Words as they are said: "7" and "seven" are the same."""
    return re.sub(r"[^\w\s']", " ", speakable(text).text.lower()).strip()


@contextlib.asynccontextmanager
async def served(parley: Parley, settings: Settings) -> AsyncIterator[str]:
    """The real server over ``parley``; its address."""
    calls = WebRtcCalls(parley.host, settings.server)
    sock = bind("127.0.0.1", 0)
    ready = asyncio.Event()
    serving = asyncio.create_task(serve(create_app(settings, parley.host, calls), sock, on_ready=ready.set))
    await asyncio.wait_for(ready.wait(), 10)
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/"
    finally:
        serving.cancel()
        await asyncio.wait([serving])
        await calls.close_all()


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
    loud = np.flatnonzero(np.abs(played.astype(np.int32)) > 300)
    assert len(loud), "the page played nothing"
    speech = played[max(0, loud[0] - 9600) : loud[-1] + 9600]
    return user, reply, resample(speech, RECORDED_RATE_HZ, 16_000)


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
            assert jiwer.wer(plain(question), plain(user)) <= 0.15
            heard = await parley.stages.asr.transcribe(sound, language="en")
            assert jiwer.wer(plain(reply), plain(heard.text)) <= 0.15, (reply, heard.text)
        assert exchanges[0][1] != exchanges[1][1]
