"""Hibari and Piper, on their real models."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hibari.voices import VOICES, voice_path

from app.audio.frames import Pcm
from app.config.settings import RuntimeSettings, TtsSettings
from app.errors import ModelError, StageError
from app.tts import Synthesizer
from app.tts.hibari import HibariSynthesizer
from app.tts.piper import PiperSynthesizer
from app.tts.speakable import speakable
from tests.kit.listening import Ear, word_error_rate

SENTENCES = (
    "The capital of France is Paris, a city full of museums.",
    "I would be happy to help you with that.",
    "Rain is expected tomorrow afternoon, so take an umbrella.",
)
TTS = TtsSettings()  # type: ignore[call-arg]
RUNTIME = RuntimeSettings(tts_threads=1)  # type: ignore[call-arg]


async def say(voice: Synthesizer, text: str, /, **manner: Any) -> Pcm:
    chunks = [chunk async for chunk in voice.synthesize(text, **manner)]
    return np.concatenate(chunks) if chunks else np.zeros(0, np.int16)


def make(backend: str, joe: Path, **changes: object) -> HibariSynthesizer | PiperSynthesizer:
    settings = TTS.model_copy(update=changes)
    return HibariSynthesizer(settings, RUNTIME) if backend == "hibari" else PiperSynthesizer(settings, RUNTIME, joe)


@pytest.mark.parametrize("backend", ["hibari", "piper"])
async def test_what_a_voice_says_is_what_an_ear_hears(backend: str, joe: Path, ear: Ear) -> None:
    voice = make(backend, joe)
    report = await voice.load()
    assert report.stage == "TTS"
    assert voice.rate_hz == {"hibari": 24_000, "piper": 22_050}[backend]
    try:
        heard = [ear.hear(await say(voice, text), voice.rate_hz) for text in SENTENCES]
    finally:
        await voice.close()
    # Piper draws its speech anew each time, and now and then a small word of 29 is heard as another.
    assert word_error_rate(" ".join(SENTENCES), " ".join(heard)) <= 0.15


async def test_numbers_and_markup_are_heard_as_words(joe: Path, ear: Ear) -> None:
    voice = make("hibari", joe)
    await voice.load()
    sound = await say(voice, speakable("**Dr. Smith** pays `$3.50` at 9:30 a.m.").text)
    heard = ear.hear(sound, voice.rate_hz).lower()
    await voice.close()
    assert "smith" in heard
    assert "asterisk" not in heard
    assert "$3" in heard or "three dollars" in heard
    assert "50" in heard or "fifty" in heard
    assert "30" in heard or "thirty" in heard


@pytest.mark.parametrize("backend", ["hibari", "piper"])
async def test_sound_starts_at_once_ends_with_a_short_pause_and_never_clips(backend: str, joe: Path) -> None:
    voice = make(backend, joe)
    await voice.load()
    loud = {}
    for text in ("Well, this is it,", "This is it."):
        sound = (await say(voice, text)).astype(np.int32)
        speech = np.flatnonzero(np.abs(sound) > 0.05 * np.abs(sound).max())
        assert speech[0] < 0.1 * voice.rate_hz
        loud[text[-1]] = len(sound) - speech[-1]
        assert 2000 < np.abs(sound).max() <= 32767
        assert (np.abs(sound) == 32767).sum() < 5
    await voice.close()
    assert loud[","] < loud["."] < 0.5 * voice.rate_hz


async def test_the_same_words_sound_the_same_each_time(joe: Path) -> None:
    voice = make("hibari", joe)
    await voice.load()
    assert np.array_equal(await say(voice, "Once more."), await say(voice, "Once more."))
    await voice.close()


async def test_a_call_may_ask_for_another_speed(joe: Path) -> None:
    for backend in ("hibari", "piper"):
        voice = make(backend, joe, speed=0.8)
        await voice.load()
        lengths = [len(await say(voice, SENTENCES[0], speed=speed)) for speed in (0.1, None, 1.4)]
        await voice.close()
        assert lengths[0] > lengths[1] > 1.2 * lengths[2]  # what no voice can do is brought to what it can


async def test_a_voice_that_is_not_there_is_refused_with_those_that_are(joe: Path) -> None:
    for backend, name in (("hibari", "heart"), ("piper", "en_US-joe-medium")):
        voice = make(backend, joe)
        await voice.load()
        assert voice.voices == (voice.default_voice,) == (name,)
        assert len(await say(voice, "Yes.", voice=name))
        with pytest.raises(StageError, match=f"'nobody'; available: {name}"):
            await say(voice, "Yes.", voice="nobody")
        await voice.close()


@pytest.fixture
def choir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """All of Hibari's voices on this machine, as if fetched: copies of the one that its package brings."""
    monkeypatch.setenv("HIBARI_HOME", str(tmp_path))
    for name in VOICES:
        if not VOICES[name].get("bundled"):
            (tmp_path / VOICES[name]["file"]).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / VOICES[name]["file"]).symlink_to(voice_path("heart"))
    return tuple(VOICES)


async def test_hibari_loads_its_other_voices_when_they_are_wanted_and_keeps_a_few(
    choir: tuple[str, ...], joe: Path
) -> None:
    voice = make("hibari", joe)
    assert isinstance(voice, HibariSynthesizer)
    await voice.load()
    assert voice.voices == choir
    assert not voice._others
    british = [name for name in choir if VOICES[name]["british"]]
    americans = [name for name in choir if not VOICES[name]["british"] and name != "heart"]
    for name in (americans[0], british[0], americans[0], *choir[-4:]):
        assert len(await say(voice, "Yes.", voice=name))
    assert set(voice._others) == set(choir[-4:])  # and the default one, which apologies are spoken in, stays
    if len(british) > 1:  # pronunciation tables are shared by voices that pronounce alike
        for name in british[:2]:
            await say(voice, "Yes.", voice=name)
        assert voice._others[british[0]].g2p is voice._others[british[1]].g2p is not voice._default.g2p
    await voice.close()


@pytest.fixture
def two(joe: Path, tmp_path: Path) -> Path:
    """A real model whose description gives it two speakers: it sounds the same, but what is asked of it differs."""
    model = next(joe.glob("*.onnx"))
    (tmp_path / "two.onnx").symlink_to(model)
    config = json.loads(Path(f"{model}.json").read_text())
    config |= {"speaker_id_map": {"zoe": 1, "abe": 0}, "default_speaker_id": 1}
    (tmp_path / "two.onnx.json").write_text(json.dumps(config))
    return tmp_path


async def test_a_piper_model_of_several_speakers_offers_them_by_name(two: Path) -> None:
    voice = PiperSynthesizer(TTS, RUNTIME, two)
    await voice.load()
    assert (voice.voices, voice.default_voice) == (("abe", "zoe"), "zoe")
    asked: list[int | None] = []
    really = voice._voice.synthesize

    def synthesize(text: str, manner: Any) -> Any:
        asked.append(manner.speaker_id)
        return really(text, manner)

    voice._voice.synthesize = synthesize
    for name in ("", "abe"):
        assert len(await say(voice, "Yes.", voice=name))
    await voice.close()
    assert asked == [1, 0]
    voice = PiperSynthesizer(TTS.model_copy(update={"voice": "eve"}), RUNTIME, two)
    with pytest.raises(ModelError, match=r"'eve' is not in two\.onnx; available: abe, zoe"):
        await voice.load()
    await voice.close()


async def test_a_voice_runs_no_more_threads_than_it_was_given(joe: Path) -> None:
    for backend in ("hibari", "piper"):
        voice = make(backend, joe)
        await voice.load()
        session = voice._default.sess if isinstance(voice, HibariSynthesizer) else voice._voice.session
        options = session.get_session_options()
        assert options.intra_op_num_threads == 1
        await voice.close()


@pytest.mark.parametrize("backend", ["hibari", "piper"])
async def test_text_without_words_yields_nothing(backend: str, joe: Path) -> None:
    voice = make(backend, joe)
    await voice.load()
    for text in ("", "  ", "...", "😀", "—"):
        assert not len(await say(voice, text))
    await voice.close()


async def test_a_voice_gives_its_first_sound_long_before_its_last(joe: Path) -> None:
    voice = make("hibari", joe)
    await voice.load()
    shares = []
    for _ in range(3):
        began = time.perf_counter()
        async with aclosing(voice.synthesize(" ".join(SENTENCES))) as chunks:
            await anext(chunks)
            first = time.perf_counter() - began
            async for _chunk in chunks:
                pass
        shares.append(first / (time.perf_counter() - began))
    await voice.close()
    assert min(shares) < 0.5


async def test_the_loop_stays_free_while_a_voice_speaks(joe: Path) -> None:
    voice = make("piper", joe)
    await voice.load()
    gaps: list[float] = []

    async def heartbeat() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.002)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    beat = asyncio.create_task(heartbeat())
    await say(voice, " ".join(SENTENCES))
    beat.cancel()
    await voice.close()
    # A sentence synthesised on the loop would be one gap; together they would be all of the time.
    assert sum(gap for gap in gaps if gap > 0.05) < sum(gaps) / 2


async def test_an_unknown_or_absent_hibari_voice_is_refused_with_those_that_are_here(joe: Path) -> None:
    for name in ("nobody", "emma"):
        voice = make("hibari", joe, voice=name)
        with pytest.raises(ModelError, match=rf"{name}.*heart"):
            await voice.load()
        await voice.close()


async def test_a_piper_voice_without_its_json_names_the_missing_file(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"x")
    voice = PiperSynthesizer(TTS, RUNTIME, tmp_path)
    with pytest.raises(ModelError, match=r"a\.onnx\.json is missing"):
        await voice.load()
    (tmp_path / "a.onnx.json").write_text("{}")
    with pytest.raises(ModelError, match=r"a\.onnx cannot be loaded"):
        await voice.load()
    await voice.close()


def test_the_small_voices_do_not_bring_torch_into_the_process() -> None:
    code = (
        "import asyncio, sys\n"
        "from app.config.settings import RuntimeSettings, TtsSettings\n"
        "import app.tts.clauses, app.tts.timing, app.tts.openai, app.tts.coqui, app.tts.piper, app.tts.hibari\n"
        "voice = app.tts.hibari.HibariSynthesizer(TtsSettings(), RuntimeSettings())\n"
        "async def main():\n    await voice.load()\n    await voice.close()\n"
        "asyncio.run(main())\n"
        "assert 'torch' not in sys.modules and 'TTS' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
