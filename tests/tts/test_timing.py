"""When each word has been heard, against what Whisper says of the same sound."""

from __future__ import annotations

from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import pytest

from app.audio.frames import OUTPUT_RATE_HZ, Pcm
from app.audio.resample import resample
from app.config.settings import RuntimeSettings, TtsSettings
from app.tts.clause import Clause
from app.tts.hibari import HibariSynthesizer
from app.tts.piper import PiperSynthesizer
from app.tts.timing import ClauseTimer, pause_weight, speech_weight
from tests.kit.listening import Ear, plain

TEXTS = (
    "The weather is lovely today, so we could walk along the river.",
    "My favorite season is autumn, when the leaves turn yellow and the air is fresh.",
    "I think it would be a good idea to take the early train tomorrow.",
)
SETTINGS = TtsSettings()  # type: ignore[call-arg]
RUNTIME = RuntimeSettings(tts_threads=1)  # type: ignore[call-arg]


def clause(spoken: str) -> Clause:
    words = spoken.split()
    return Clause(0, len(words), spoken, tuple(range(1, len(words) + 1)))


@pytest.mark.parametrize("backend", ["hibari", "piper"])
async def test_most_words_are_placed_within_a_quarter_of_a_second(backend: str, joe: Path, ear: Ear) -> None:
    voice = HibariSynthesizer(SETTINGS, RUNTIME) if backend == "hibari" else PiperSynthesizer(SETTINGS, RUNTIME, joe)
    await voice.load()
    late_s: list[float] = []
    last_late_s: list[float] = []
    for text in TEXTS:
        sound: Pcm = np.concatenate([chunk async for chunk in voice.synthesize(text)])
        timer = ClauseTimer(clause(text), OUTPUT_RATE_HZ, first_sample=0)
        timer.add(resample(sound, voice.rate_hz, OUTPUT_RATE_HZ))
        ends_s = [end / OUTPUT_RATE_HZ for _, end in timer.finish()]
        heard = ear.words(sound, voice.rate_hz)
        # An ear may mishear a word; those it got are compared.
        same = SequenceMatcher(a=plain(text).split(), b=[plain(word.text) for word in heard], autojunk=False)
        for block in same.get_matching_blocks():
            late_s += [ends_s[block.a + i] - heard[block.b + i].end_s for i in range(block.size)]
        last_late_s.append(ends_s[-1] - heard[-1].end_s)
    await voice.close()
    assert len(late_s) >= 0.8 * sum(len(text.split()) for text in TEXTS)
    # Where the last word ends shows in the sound itself: Whisper puts it, as every end, a little early.
    early_s = float(np.median(last_late_s))
    assert abs(early_s) < 0.3
    errors_s = np.abs(np.array(late_s) - early_s)
    assert np.mean(errors_s < 0.25) >= 0.9
    assert np.median(errors_s) < 0.12


def test_words_share_the_voiced_part_and_the_last_ends_with_it() -> None:
    timer = ClauseTimer(clause("one two three"), 1000, first_sample=500)
    timer.add(np.zeros(100, np.int16))
    timer.add(np.full(900, 5000, np.int16))
    timer.add(np.zeros(200, np.int16))
    ends = [sample for _, sample in timer.finish()]
    assert ends == sorted(ends)
    assert 600 < ends[0] < ends[1] < ends[2]
    assert ends[2] == pytest.approx(1500, abs=20)


def test_before_the_clause_is_complete_no_word_beyond_its_sound_is_given() -> None:
    timer = ClauseTimer(clause("one two three four five six"), 1000, first_sample=0)
    assert timer.words() == ()
    timer.add(np.full(1200, 5000, np.int16))
    early = timer.words()
    assert 0 < len(early) < 6
    assert all(sample < 1200 for _, sample in early)


def test_silence_and_nothing_are_no_trouble() -> None:
    assert ClauseTimer(clause("one"), 1000, first_sample=0).finish() == ()
    timer = ClauseTimer(clause("one two"), 1000, first_sample=0)
    timer.add(np.zeros(100, np.int16))
    assert timer.finish()[-1] == (2, 100)
    assert ClauseTimer(Clause(0, 3, "", ()), 1000, first_sample=0).finish() == ()


def test_longer_words_and_pauses_weigh_more() -> None:
    assert speech_weight("extraordinary") > speech_weight("ordinary") > speech_weight("or")
    assert pause_weight("so.") > pause_weight("so,") > pause_weight("so") == 0
    assert speech_weight("你好世界") > speech_weight("你好")
