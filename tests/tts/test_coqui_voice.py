"""The real Coqui package, on a tiny VITS checkpoint made here. It brings torch, hence a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app.config.settings import RuntimeSettings, TtsSettings
from app.errors import ModelError
from app.tts.coqui import CoquiSynthesizer

MAKE_AND_SPEAK = """
import asyncio, json, sys
from contextlib import aclosing
from pathlib import Path
import numpy as np, torch
from TTS.tts.configs.vits_config import VitsConfig
from TTS.tts.models.vits import Vits, VitsArgs
from app.config.settings import RuntimeSettings, TtsSettings
from app.errors import ModelError, StageError
from app.tts.coqui import CoquiSynthesizer

folder = Path(sys.argv[1])
torch.manual_seed(0)
args = VitsArgs(
    hidden_channels=16, hidden_channels_ffn_text_encoder=32, num_heads_text_encoder=2, num_layers_text_encoder=1,
    num_layers_posterior_encoder=1, num_layers_flow=1, upsample_initial_channel_decoder=32, init_discriminator=False,
)
config = VitsConfig(model_args=args, text_cleaner="basic_cleaners", use_phonemes=False)
model = Vits.init_from_config(config)
model.config.save_json(str(folder / "config.json"))
torch.save({"model": model.state_dict()}, folder / "model.pth")

async def main():
    runtime = RuntimeSettings(tts_threads=1)
    voice = CoquiSynthesizer(TtsSettings(backend="coqui", model=str(folder)), runtime)
    report = await voice.load()
    assert report.stage == "TTS" and "22.05 kHz" in report.detail and report.load_s > 0, report
    assert voice.rate_hz == 22050
    sound = np.concatenate([chunk async for chunk in voice.synthesize("hello there, how are you?")])
    assert sound.dtype == np.int16 and len(sound) > 2000 and np.abs(sound.astype(int)).max() > 100
    assert [chunk async for chunk in voice.synthesize("...")] == []
    async with aclosing(voice.synthesize("cut off")) as chunks:
        await anext(chunks)
    await voice.close()
    await several(runtime)
    slow = CoquiSynthesizer(TtsSettings(backend="coqui", model=str(folder), speed=0.5), runtime)
    await slow.load()
    assert slow.voices == (slow.default_voice,) == (folder.name,) and slow.speeds == (0.5, 2.0), slow.voices
    slowly = np.concatenate([chunk async for chunk in slow.synthesize("hello there, how are you?")])
    assert slow._synthesizer.tts_model.length_scale == 2.0
    assert len(slowly) > len(sound), (len(sound), len(slowly))  # not twice as long: durations are drawn anew each time
    async for chunk in slow.synthesize("hello there", voice=folder.name, speed=2.0):
        pass
    assert slow._synthesizer.tts_model.length_scale == 0.5
    try:
        slow.synthesize("hello", voice="nobody")
    except StageError as error:
        assert "nobody" in str(error) and folder.name in str(error), error
    else:
        raise AssertionError("an unknown voice was accepted")
    del type(slow._synthesizer.tts_model).inference, slow._synthesizer.tts_model.length_scale
    try:
        slow._speeds()
    except ModelError as error:
        assert "tts.speed" in str(error), error
    else:
        raise AssertionError("a speed that has no effect was accepted")
    await slow.close()
    wrong = CoquiSynthesizer(TtsSettings(backend="coqui", model=str(folder), voice="nobody"), runtime)
    try:
        await wrong.load()
    except ModelError as error:
        assert "nobody" in str(error) and "available" in str(error), error
    else:
        raise AssertionError("an unknown voice was accepted")
    await wrong.close()
    print("spoken", len(sound))

async def several(runtime):
    many = folder / "many"
    many.mkdir()
    ids = many / "speakers.json"
    ids.write_text(json.dumps({"anna": 0, "bert": 1}))
    speakers = VitsArgs(**{**args, "use_speaker_embedding": True, "speakers_file": str(ids)})
    config = VitsConfig(model_args=speakers, text_cleaner="basic_cleaners", use_phonemes=False)
    model = Vits.init_from_config(config)
    model.config.save_json(str(many / "config.json"))
    torch.save({"model": model.state_dict()}, many / "model.pth")
    voice = CoquiSynthesizer(TtsSettings(backend="coqui", model=str(many), voice="bert"), runtime)
    await voice.load()
    assert voice.voices == ("anna", "bert") and voice.default_voice == "bert", voice.voices
    asked = []
    tts = voice._synthesizer.tts
    voice._synthesizer.tts = lambda *text, **how: asked.append(how["speaker_name"]) or tts(*text, **how)
    for name in ("", "anna"):
        assert [chunk async for chunk in voice.synthesize("hello", voice=name)]
    assert asked == ["bert", "anna"], asked
    await voice.close()

asyncio.run(main())
"""


def test_a_checkpoint_in_a_folder_is_loaded_and_speaks(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", MAKE_AND_SPEAK, str(tmp_path)], capture_output=True, text=True, timeout=110, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "spoken" in ran.stdout


async def test_a_folder_without_a_checkpoint_is_refused_by_the_key_and_the_files_it_needs(tmp_path: Path) -> None:
    for model, says in (("", r"tts\.model is empty"), (str(tmp_path), r"config\.json")):
        voice = CoquiSynthesizer(
            TtsSettings(backend="coqui", model=model),  # type: ignore[call-arg]
            RuntimeSettings(),  # type: ignore[call-arg]
        )
        with pytest.raises(ModelError, match=says):
            await voice.load()
        await voice.close()
