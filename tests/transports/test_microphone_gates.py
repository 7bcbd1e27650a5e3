"""What stands between microphone and session: a switch, a wake word, a level meter, the echo's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import numpy as np
import pytest

from app.audio.frames import INPUT_FRAME, OUTPUT_RATE_HZ, Pcm
from app.audio.resample import resample
from app.errors import ConfigError, ParleyError, SessionLimit
from app.transports.microphone import Switch, WakeWord, Waking, seat, wake, wake_words
from app.transports.microphone.delay import DelayMeter
from app.transports.microphone.levels import Level
from tests.kit.recording_session import RecordingSession
from tests.kit.speech import say

_LOUD = np.full(INPUT_FRAME, 5000, np.int16)
_PAUSE = np.zeros(16_000, np.int16)


def frames(sound: Pcm) -> list[Pcm]:
    return list(sound[: len(sound) // INPUT_FRAME * INPUT_FRAME].reshape(-1, INPUT_FRAME))


async def test_a_switch_passes_silence_until_it_is_pressed_and_the_tail_after_its_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seat, "_TAIL_S", 0.02)
    session, told = RecordingSession(), []
    switch = Switch(session, is_open=False, on_open=lambda: told.append("open"), on_sent=lambda: told.append("sent"))
    switch.push_audio(_LOUD)
    switch.press()
    switch.press()  # a terminal repeats keys that are held
    switch.push_audio(_LOUD)
    switch.release()
    switch.push_audio(_LOUD)
    assert told == ["open"]
    await asyncio.sleep(0.05)
    switch.push_audio(_LOUD)
    assert [bool(frame.any()) for frame in session.frames] == [False, True, True, False]
    assert told == ["open", "sent"]


async def test_pressed_again_within_the_tail_the_turn_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seat, "_TAIL_S", 0.02)
    told: list[str] = []
    switch = Switch(
        RecordingSession(), is_open=False, on_open=lambda: told.append("open"), on_sent=lambda: told.append("sent")
    )
    switch.toggle()
    switch.toggle()
    switch.toggle()
    await asyncio.sleep(0.05)
    assert told == ["open"]
    assert switch.held


def test_the_words_are_listed_and_an_unknown_one_is_refused_with_them() -> None:
    assert "hey jarvis" in wake_words()
    with pytest.raises(ConfigError, match="hey jarvis"):
        WakeWord("abracadabra")


class _House:
    """Opens sessions and remembers what was told."""

    def __init__(self) -> None:
        self.sessions: list[RecordingSession] = []
        self.awake: list[bool] = []
        self.errors: list[ParleyError] = []
        self.refuses = False

    async def open(self) -> RecordingSession:
        await asyncio.sleep(0.05)
        if self.refuses:
            raise SessionLimit("Full up.")
        self.sessions.append(RecordingSession())
        return self.sessions[-1]


@pytest.fixture(scope="module")
def jarvis() -> WakeWord:
    return WakeWord("Hey Jarvis")


@asynccontextmanager
async def asleep(word: WakeWord, house: _House) -> AsyncIterator[Waking]:
    waking = Waking(word, house.open, on_change=house.awake.append, on_error=house.errors.append)
    try:
        yield waking
    finally:
        await waking.close()
        word.forget()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event to set
            await asyncio.sleep(0.005)


async def speak(waking: Waking, sound: Pcm) -> None:
    for frame in frames(sound):
        waking.push_audio(frame)
    await asyncio.sleep(0)


async def test_nothing_before_the_word_reaches_a_session_and_what_follows_it_does(jarvis: WakeWord) -> None:
    house = _House()
    async with asleep(jarvis, house) as waking:
        await speak(waking, np.concatenate([say("What is the capital of France?"), _PAUSE]))
        assert not house.sessions, "no word, no session"
        await speak(waking, np.concatenate([say("Hey Jarvis."), _PAUSE]))
        waking.push_audio(_LOUD)
        await until(lambda: bool(house.sessions))
        waking.push_audio(_LOUD)
        session = house.sessions[0]
        await until(lambda: len(session.frames) > 0)
        assert np.abs(waking.pull_audio(4800)).max() > 0, "a tone tells that it listens"
        words_s = np.count_nonzero((np.abs(session.heard) > 500) & (session.heard != _LOUD[0])) / 16_000
        assert words_s < 0.1, "the word itself, or what was said before it, went to the session"
        assert np.count_nonzero(session.heard == _LOUD[0]) == 2 * INPUT_FRAME, "what came while it opened is missing"
        await session.close("over")
        await until(lambda: not waking.awake)
        await speak(waking, say("Are you still there?"))
    assert house.awake == [True, False]
    assert len(house.sessions) == 1


async def test_a_question_in_the_same_breath_as_the_word_is_whole(jarvis: WakeWord) -> None:
    """The word is noticed late, when the question has begun."""
    house = _House()
    word = say("Hey Jarvis.")
    word = word[: np.flatnonzero(np.abs(word) > 400)[-1] + 1]
    async with asleep(jarvis, house) as waking:
        question = np.full(16_000, 5000, np.int16)
        await speak(waking, np.concatenate([_PAUSE, word, np.zeros(-len(word) % INPUT_FRAME, np.int16), question]))
        await until(lambda: bool(house.sessions) and bool(house.sessions[0].frames))
        lost_s = (len(question) - np.count_nonzero(house.sessions[0].heard == question[0])) / 16_000
    assert lost_s <= 0.02


@pytest.mark.parametrize("rising", [True, False])
def test_its_own_notes_do_not_wake_it(jarvis: WakeWord, rising: bool) -> None:
    notes = resample(np.tile(np.pad(wake._tone(rising=rising), (0, 9600)), 6), OUTPUT_RATE_HZ, 16_000)
    try:
        heard = [jarvis.heard(frame) for frame in frames(notes)]
        assert not any(heard)
    finally:
        jarvis.forget()


async def test_a_session_that_cannot_be_had_is_told_and_the_word_works_again(jarvis: WakeWord) -> None:
    house = _House()
    house.refuses = True
    async with asleep(jarvis, house) as waking:
        waking.wake()
        await until(lambda: not waking.awake)
        assert [str(error) for error in house.errors] == ["Full up."]
        house.refuses = False
        waking.wake()
        await until(lambda: bool(house.sessions))


@pytest.mark.parametrize("delay_ms", [40, 130, 310])
def test_the_echos_way_is_measured_on_speech_over_which_somebody_speaks(delay_ms: int) -> None:
    far = resample(
        say("The second room holds clocks, and each of them tells a different time."), 16_000, OUTPUT_RATE_HZ
    )
    late = delay_ms * OUTPUT_RATE_HZ // 1000
    near = np.concatenate([np.zeros(late, np.int16), far])[: len(far)] // 4
    user = resample(say("Excuse me."), 16_000, OUTPUT_RATE_HZ) // 4
    near[: len(user)] += user[: len(near)]
    meter = DelayMeter()
    for start in range(0, len(far) - 480, 480):
        meter.played(far[start : start + 480])
        meter.heard(near[start : start + 480])
    assert meter.measure() == pytest.approx(delay_ms, abs=2)


def test_without_an_echo_nothing_is_measured() -> None:
    far = resample(
        say("The second room holds clocks, and each of them tells a different time."), 16_000, OUTPUT_RATE_HZ
    )
    noise = np.random.default_rng(1).normal(0, 300, len(far)).astype(np.int16)
    meter = DelayMeter()
    for start in range(0, len(far) - 480, 480):
        meter.played(far[start : start + 480])
        meter.heard(noise[start : start + 480])
    assert meter.measure() is None


def test_a_meter_rises_at_once_and_falls_slowly() -> None:
    level = Level()
    level.add(np.full(320, 16_384, np.int16))
    assert level.db == pytest.approx(-6.0, abs=0.1)
    level.add(np.zeros(320, np.int16))
    assert -8 < level.db < -6
