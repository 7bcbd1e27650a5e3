from __future__ import annotations

import asyncio

import numpy as np
import pytest

from app.audio.turn import SmartTurn
from app.catalog import model_path
from app.errors import ModelError
from tests.kit.sounds import silence
from tests.kit.speech import recording, say


@pytest.fixture
async def turn(store):
    detector = SmartTurn(model_path("smart-turn-v3", store, kind="turn"))
    yield detector
    await detector.close()


def paused(sound, share=1.0):
    """The first ``share`` of ``sound``, then the 200 ms of silence after which the model is asked."""
    return np.concatenate([sound[: int(len(sound) * share)], silence(0.2)])


@pytest.mark.parametrize("text", ["What time is it?", "Tell me about the weather in Paris.", "Yes."])
async def test_a_spoken_sentence_is_complete(turn, text):
    assert await turn.completeness(paused(say(text))) > 0.8


@pytest.mark.parametrize("name", ["en/quick_brown_fox", "fr/pangrama", "pt/pangrama", "es/pangrama"])
async def test_a_recorded_sentence_is_complete_and_its_first_half_is_not(turn, name):
    sound = recording(name)
    assert await turn.completeness(paused(sound)) > 0.8
    assert await turn.completeness(paused(sound, 0.5)) < 0.3


@pytest.mark.parametrize("tail_s", [0.128, 0.16, 0.3])
async def test_less_silence_than_200_ms_tells_as_much(turn, tail_s):
    """So it can be asked as soon as the voice detector hears the pause."""
    sound = recording("en/quick_brown_fox")
    assert await turn.completeness(np.concatenate([sound, silence(tail_s)])) > 0.8
    assert await turn.completeness(np.concatenate([sound[: len(sound) // 2], silence(tail_s)])) < 0.3


async def test_only_the_last_8_s_count(turn):
    sound = paused(recording("en/quick_brown_fox"))
    padded = np.concatenate([silence(8), sound])[-8 * 16_000 :]
    before = np.concatenate([say("Tell me a story."), padded])
    assert await turn.completeness(before) == pytest.approx(await turn.completeness(padded), abs=1e-5)


async def test_a_batch_judges_as_one_by_one(turn):
    sounds = [paused(say("What time is it?")), paused(recording("en/quick_brown_fox"), 0.5), silence(0)]
    alone = [await turn.completeness(sound) for sound in sounds]
    together = await asyncio.gather(*(turn.completeness(sound) for sound in sounds))
    assert together == pytest.approx(alone, abs=1e-4)


async def test_loading_reports_what_it_cost(turn):
    report = await turn.load()
    assert report.stage == "turn"
    assert "smart-turn" in report.detail
    assert report.load_s > 0


async def test_a_missing_model_is_named_with_the_remedy(tmp_path):
    detector = SmartTurn(tmp_path)
    with pytest.raises(ModelError, match=r"smart-turn-v3\.2-cpu\.onnx is missing.*models pull"):
        await detector.load()
    await detector.close()
