"""Whisper base itself, on real speech and real noise."""

from __future__ import annotations

import asyncio
import re
import time

import numpy as np
import pytest

from app.asr.faster_whisper import FasterWhisperRecognizer
from app.catalog import model_path
from app.config.settings import AsrSettings, RuntimeSettings
from app.errors import ModelError, Overloaded, StageError
from tests.kit.sounds import babble, beats, breath, clicks, cough, fan, hiss, music, pink, silence, typing
from tests.kit.speech import recording, say, sounding

# Several languages: what is not fixed must be detected, and only among these.
SETTINGS = AsrSettings(languages=("en", "fr", "zh"))
NINE = ("en", "fr", "es", "it", "pt", "pl", "hi", "ja", "zh")


@pytest.fixture(scope="module")
def folder(store):
    return model_path("whisper-base", store, kind="asr")


@pytest.fixture(scope="module")
def hear(folder):
    recognizer = FasterWhisperRecognizer(SETTINGS, RuntimeSettings(), folder)
    yield recognizer
    asyncio.run(recognizer.close())


@pytest.fixture
async def rested(folder):
    """One that owes no rest for another test's partials."""
    recognizer = FasterWhisperRecognizer(SETTINGS, RuntimeSettings(), folder)
    await recognizer.load()
    yield recognizer
    await recognizer.close()


def words(text):
    return re.findall(r"\w+", text.lower())


def _babble(level):
    told = (
        "The committee approved the budget for the new library.",
        "Tell me a joke about cats.",
        "I disagree with that proposal.",
        "What time is it?",
        "Could you set a timer for twenty five minutes please?",
        "She sells sea shells by the sea shore.",
        "Read me the latest news about the election.",
    )
    return babble([say(text) for text in told], 2.5, level)


@pytest.mark.parametrize(
    "sounds",
    [
        [silence(2), hiss(3), hiss(2, 0.2), hiss(0.5, 0.003)],
        [pink(1, 0.003), pink(2, 0.03), pink(3, 0.2), fan(0.6, 0.01), fan(3, 0.03), fan(2, 0.1)],
        [clicks(2), typing(3), typing(1, 0.05)],
        [cough(), cough(1)[4800:12_800], breath(), breath(0.1, 1)],
        [music(0.5), music(4), beats(1), beats(4)],
        [_babble(0.002), _babble(0.005)],
    ],
    ids=["hiss", "rooms", "keys", "throats", "music", "babble"],
)
async def test_what_nobody_said_gives_no_text(hear, sounds):
    heard = await asyncio.gather(*(hear.transcribe(sound, language="en") for sound in sounds))
    assert [transcript.text for transcript in heard] == [""] * len(sounds)


@pytest.mark.parametrize("word", ["stop", "wait", "no", "yeah", "okay", "hold on"])
async def test_words_over_the_assistant_are_heard_from_their_first_350_ms(hear, word):
    spoken = say(f"{word.capitalize()}.")
    start = sounding(spoken)[0]
    cut = spoken[max(0, start - 1600) : start + 350 * 16]
    assert words((await hear.transcribe(cut, language="en")).text) == words(word)


@pytest.mark.parametrize("word", ["yes", "no", "stop", "wait"])
async def test_a_short_word_is_recognised_with_and_without_noise_around_it(hear, word):
    spoken = say(word)
    assert words((await hear.transcribe(spoken, language="en")).text) == [word]
    noisy = np.concatenate([silence(0.4), (spoken * 0.3).astype(np.int16), silence(0.25)])
    noisy = noisy + hiss(len(noisy) / 16_000, 0.004)[: len(noisy)]
    assert words((await hear.transcribe(noisy, language="en")).text) == [word]


async def test_a_short_word_of_another_language_is_not_dropped(hear):
    assert words((await hear.transcribe(say("tock"), language="pl")).text) == ["tak"]


async def test_a_word_that_begins_with_a_plosive_at_the_very_first_sample_is_whole(hear):
    spoken = say("Peter put the book back.")
    cut = spoken[int(np.flatnonzero(np.abs(spoken) > 300)[0]) :]
    with_pre_roll = np.concatenate([silence(0.4), cut])
    assert words((await hear.transcribe(with_pre_roll, language="en")).text)[0] == "peter"


async def test_a_speaker_is_followed_into_another_language_once_it_is_clear(folder):
    hear = FasterWhisperRecognizer(AsrSettings(languages=NINE), RuntimeSettings(), folder)
    clear = ("fr/pangrama", "pt/contagem", "zh/pangrama", "ja/kazoeru")
    heard = await asyncio.gather(*(hear.transcribe(recording(name), expected="en") for name in clear))
    assert [transcript.language for transcript in heard] == [name[:2] for name in clear]
    unclear = ("pl/witaj_swiecie", "hi/namaste_duniya", "it/ciao_mondo", "es/hola_mundo")
    heard = await asyncio.gather(*(hear.transcribe(recording(name), expected=name[:2]) for name in unclear))
    assert [transcript.language for transcript in heard] == [name[:2] for name in unclear]
    assert all(transcript.text for transcript in heard)
    await hear.close()


async def test_a_short_word_keeps_the_language_that_was_spoken_before(hear):
    assert (await hear.transcribe(say("No."), expected="fr")).language == "fr"
    heard = await hear.transcribe(recording("zh/nihao_shijie"), expected="xx")  # not allowed: as if unknown
    assert (heard.language, bool(heard.text)) == ("zh", True)


async def test_the_language_is_found_among_those_allowed(hear):
    names = ("en/quick_brown_fox", "fr/bonjour_monde", "zh/nihao_shijie")
    heard = await asyncio.gather(*(hear.transcribe(recording(name)) for name in names))
    assert [transcript.language for transcript in heard] == ["en", "fr", "zh"]
    assert words(heard[0].text) == ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"]
    assert 0.8 < heard[0].confidence <= 1.0


async def test_utterances_heard_together_read_as_alone(hear):
    texts = ["What time is it?", "Tell me a joke about cats.", "No.", "The committee approved the budget."]
    alone = [words((await hear.transcribe(say(text), language="en")).text) for text in texts]
    together = await asyncio.gather(*(hear.transcribe(say(text), language="en") for text in texts))
    assert [words(transcript.text) for transcript in together] == alone
    assert alone[0] == words(texts[0])


async def test_a_90_s_monologue_loses_nothing(hear):
    things = ["apple", "banana", "cherry", "dolphin", "elephant", "football", "garden", "hospital", "jacket"]
    spoken, told = [], []
    while sum(map(len, spoken)) < 90 * 16_000:
        told.append(things[len(told) % len(things)])
        spoken += [say(f"Then I had to think about the {told[-1]}, again."), silence(0.5)]
    heard = await hear.transcribe(np.concatenate(spoken), language="en")
    assert [word for word in words(heard.text) if word in things] == told


async def test_known_words_keep_their_spelling_and_wrong_ones_change_nothing(hear):
    spoken = say("The committee approved the budget for the new library.")
    alone = (await hear.transcribe(spoken, language="en")).text
    heard = await asyncio.gather(
        *(hear.transcribe(spoken, language="en", known=known) for known in ("the COMMITTEE", "I would like a pizza"))
    )
    assert heard[0].text == "the COMMITTEE" + alone[len("the COMMITTEE") :]
    assert heard[1].text == alone


async def test_a_partial_is_recognised_when_nothing_else_is_to_be_done_and_then_a_rest_is_due(rested):
    spoken = say("What time is it?")
    heard = await rested.transcribe(spoken, language="en", partial=True)
    assert words(heard.text) == words("What time is it?")
    with pytest.raises(Overloaded, match="share") as caught:
        await rested.transcribe(spoken, language="en", partial=True)
    assert caught.value.retry_after_s > 0.01
    assert words((await rested.transcribe(spoken, language="en")).text) == words(heard.text)  # a final needs no rest


async def test_a_partial_is_refused_at_once_while_a_final_is_at_work(rested):
    final = asyncio.create_task(rested.transcribe(say("What time is it?"), language="en"))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="at work"):
        await rested.transcribe(say("Wait."), language="en", partial=True)
    assert words((await final).text) == words("What time is it?")


async def test_a_partial_gives_way_to_a_final_that_comes_in_between(rested):
    partial = asyncio.create_task(rested.transcribe(say("Tell me a joke."), language="en", partial=True))
    for _ in range(200):
        await asyncio.sleep(0.001)
        if not rested._worker.waiting:  # it has begun
            break
    assert words((await rested.transcribe(say("Stop."), language="en")).text) == ["stop"]
    with pytest.raises(Overloaded, match=r"in between"):
        await partial


async def test_of_a_long_partial_only_the_end_is_heard(rested):
    things = ["apple", "banana", "cherry", "dolphin", "elephant", "football", "garden", "hospital"]
    spoken = [part for thing in things for part in (say(f"Then I had to think about the {thing}."), silence(0.5))]
    heard = await rested.transcribe(np.concatenate(spoken), language="en", partial=True)
    found = [word for word in words(heard.text) if word in things]
    assert 3 <= len(found) < len(things)
    assert found == things[-len(found) :]


async def test_a_cancelled_utterance_is_not_recognised(hear):
    await hear.load()
    busy = [asyncio.create_task(hear.transcribe(say("What time is it?"), language="en")) for _ in range(2)]
    await asyncio.sleep(0.01)
    left = asyncio.create_task(hear.transcribe(np.tile(say("Tell me a story."), 12), language="en"))
    await asyncio.sleep(0)
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    began = time.perf_counter()
    await asyncio.gather(*busy)
    await hear.transcribe(say("No."), language="en")
    assert time.perf_counter() - began < 3


async def test_an_utterance_that_nobody_waits_for_any_more_is_given_up_before_its_words(hear, monkeypatch):
    await hear.load()
    given_up = asyncio.Event()
    loop, transcribe = asyncio.get_running_loop(), hear._transcribe

    def watched(batch):
        try:
            return transcribe(batch)
        except Overloaded:
            loop.call_soon_threadsafe(given_up.set)
            raise

    monkeypatch.setattr(hear, "_transcribe", watched)
    left = asyncio.create_task(hear.transcribe(say("Tell me a joke."), language="en"))
    while hear._worker.idle or hear._worker.waiting:  # noqa: ASYNC110 - a thread takes it
        await asyncio.sleep(0.001)
    left.cancel()
    assert words((await hear.transcribe(say("Stop."), language="en")).text) == ["stop"]
    assert given_up.is_set()


async def test_recognition_does_not_block_the_loop(hear):
    await hear.load()
    work = asyncio.create_task(hear.transcribe(say("What time is it?"), language="en"))
    longest, began = 0.0, time.perf_counter()
    last = began
    while not work.done():
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    # On the loop, recognition would show as one gap as long as itself. The rest is the scheduler's.
    assert longest < (last - began) / 2


async def test_loading_reports_what_it_cost_and_a_missing_file_is_named(hear, tmp_path):
    report = await hear.load()
    assert report.stage == "ASR"
    assert "whisper-base" in report.detail
    empty = FasterWhisperRecognizer(SETTINGS, RuntimeSettings(), tmp_path)
    with pytest.raises(ModelError, match=r"model\.bin.*models pull"):
        await empty.load()
    await empty.close()


async def test_a_language_that_whisper_does_not_know_fails_its_speaker_and_nobody_else(rested):
    there, strange = await asyncio.gather(
        rested.transcribe(say("What time is it?"), language="en"),
        rested.transcribe(say("What time is it?"), language="zz"),
        return_exceptions=True,
    )
    assert words(there.text) == ["what", "time", "is", "it"]
    assert isinstance(strange, StageError)
