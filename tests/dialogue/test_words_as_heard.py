"""The judgements about words hold for what Whisper base makes of them, whole and cut off where a decision is due."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from app.asr.faster_whisper import FasterWhisperRecognizer
from app.audio.frames import INPUT_RATE_HZ, Pcm
from app.bench.turns.hums import hum
from app.catalog import model_path
from app.config.settings import AsrSettings, RuntimeSettings
from app.dialogue.words.backchannel import is_backchannel
from app.dialogue.words.commands import asks_to_go_on, is_farewell, is_stop
from app.dialogue.words.unfinished import sounds_unfinished
from tests.kit.sounds import silence
from tests.kit.speech import say, sounding

DECISION_S = 0.4
"""Speech over the assistant is looked at after so much of it (turn.barge_in_ms)."""


@pytest.fixture(scope="module")
def recognizer(store):
    recognizer = FasterWhisperRecognizer(
        AsrSettings(), RuntimeSettings(), model_path("whisper-base", store, kind="asr")
    )
    yield recognizer
    asyncio.run(recognizer.close())


async def heard(recognizer: FasterWhisperRecognizer, sound: Pcm, seconds: float | None = None) -> str:
    first, end = sounding(sound)
    if seconds is not None:
        end = min(end, first + int(seconds * INPUT_RATE_HZ))
    transcript = await recognizer.transcribe(np.concatenate([silence(0.3), sound[first:end], silence(0.15)]))
    return transcript.text


@pytest.mark.parametrize("words", ["Stop.", "Wait.", "No.", "Hold on.", "Please stop.", "Stop, what time is it?"])
async def test_a_stop_is_known_by_the_time_of_the_decision(recognizer, words: str) -> None:
    assert is_stop(await heard(recognizer, say(words), DECISION_S))


@pytest.mark.parametrize(("kind", "hertz"), [("mm-hm", 120.0), ("mm-hm", 180.0), ("uh-huh", 120.0), ("uh-huh", 200.0)])
async def test_a_hum_is_no_turn(recognizer, kind, hertz: float) -> None:
    words = await heard(recognizer, hum(kind, hertz) // 3)
    assert not words or is_backchannel(words)


async def test_a_hum_comes_through_as_one(recognizer) -> None:
    assert is_backchannel(await heard(recognizer, hum("mm-hm", 120.0) // 3))


@pytest.mark.parametrize("words", ["Yeah.", "Right, right.", "I see.", "Okay."])
async def test_a_spoken_sign_of_listening_is_no_turn(recognizer, words: str) -> None:
    assert is_backchannel(await heard(recognizer, say(words)))


@pytest.mark.parametrize("words", ["So I went to the store and", "I'd like a pizza with", "My phone number is"])
async def test_a_sentence_that_breaks_off_is_known_by_its_words(recognizer, words: str) -> None:
    assert sounds_unfinished(await heard(recognizer, say(words)))


async def test_requests_to_go_on_and_goodbyes_are_known(recognizer) -> None:
    assert asks_to_go_on(await heard(recognizer, say("Please go on.")))
    assert is_farewell(await heard(recognizer, say("Okay thanks, goodbye.")))
