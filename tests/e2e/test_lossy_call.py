"""A call that loses packets is still understood."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import jiwer
import numpy as np
import pytest

from app.asr.faster_whisper import FasterWhisperRecognizer
from app.audio import Pcm, resample
from app.catalog import model_path
from app.config import Settings
from app.transports.webrtc import WebRtcCalls
from app.tts.hibari import HibariSynthesizer
from tests.kit.browser import loopback_media
from tests.kit.scripted_session import ScriptedHost, ScriptedSession
from tests.kit.stages import spoken
from tests.kit.webrtc_client import WebRtcClient

SENTENCE = "the weather today is sunny with a light wind from the west"


@pytest.fixture(autouse=True)
def _loopback() -> Iterator[None]:
    with loopback_media():
        yield


@pytest.mark.parametrize("burst", [False, True], ids=["5 % random loss", "a burst of 200 ms before the sentence"])
async def test_loss_leaves_the_transcript_right(burst: bool, store: Path, settings: Settings) -> None:
    recognizer = FasterWhisperRecognizer(settings.asr, settings.runtime, model_path("whisper-base", store, kind="asr"))
    voice = HibariSynthesizer(settings.tts, settings.runtime)
    await recognizer.load()
    await voice.load()
    speech = resample(await spoken(voice, SENTENCE, lead_s=0.6), 16_000, 48_000)
    host = ScriptedHost()
    calls = WebRtcCalls(host, settings.server)
    random = Random(3)
    dropped = 0

    def lose(index: int) -> bool:
        nonlocal dropped
        lost = 16 <= index < 26 if burst else random.random() < 0.05
        dropped += lost
        return lost

    frames: list[Pcm] = []
    async with WebRtcClient(calls.offer, speech, lose):
        session: ScriptedSession = host.sessions[-1]
        session.push_audio = lambda pcm: frames.append(pcm.copy())  # type: ignore[method-assign]
        await asyncio.sleep(len(speech) / 48_000 + 0.5)
    await calls.close_all()
    assert dropped >= 3
    heard = await recognizer.transcribe(np.concatenate(frames), language="en")
    assert jiwer.wer(SENTENCE, heard.text.lower().strip(" .").replace(",", "")) <= 0.15, heard.text
    await recognizer.close()
    await voice.close()
