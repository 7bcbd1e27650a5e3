"""What the callers say: questions and a "stop", spoken by Parley's own voices and kept for the next run."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.audio import OUTPUT_RATE_HZ, Pcm, resample, write_wav
from app.catalog import model_path
from app.config.settings import RuntimeSettings, TtsSettings
from app.errors import ModelError
from app.tts import Synthesizer

_PEAK = 16_000
"""Of every clip: voices differ in how loud they are, people at a microphone with gain control less."""
_PIPER = "piper-joe"
_EDITION = "1"
"""Part of every file's name: change it when clips are made in another way."""

QUESTIONS = (
    "Could you tell me what the capital city of France is?",
    "What is a good way to fall asleep faster at night?",
    "Can you explain to me why leaves change their color in the fall?",
    "I have some rice and a few eggs, what could I cook for dinner tonight?",
    "What should I see first when I visit London for a weekend?",
    "Why do cats sleep for such a large part of the day?",
    "What is the difference between a violin and a guitar?",
    "How can I keep my plants alive while I am away for a week?",
    "What makes the sound of thunder after a flash of lightning?",
    "Which books would you recommend to someone who likes the mountains?",
    "How much water should I drink on a hot summer day?",
    "What do I need to take with me for a long walk in the forest?",
)
LONG_QUESTIONS = (
    "Tell me a story about a fox who lives near the sea.",
    "Please describe how bread is made, from the flour to the oven.",
    "Could you give me some advice for my first day at a new job?",
    "Can you help me plan a simple birthday party for my daughter?",
)
"""Their answers are long enough to be interrupted."""
STOP = "Stop."


@dataclass(frozen=True, slots=True)
class Clip:
    """One thing to say, as one voice says it."""

    text: str
    voice: str
    path: str
    """A WAV file, 48 kHz mono."""


@dataclass(frozen=True, slots=True)
class Script:
    """All that callers may say; in each group the voices take turns."""

    questions: tuple[Clip, ...]
    long_questions: tuple[Clip, ...]
    stops: tuple[Clip, ...]

    @property
    def voices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(clip.voice for clip in (*self.questions, *self.long_questions, *self.stops)))


def prepare(store: Path, on_clip: Callable[[str], None] = lambda text: None) -> Script:
    """Find or make every clip. Blocks for some seconds the first time.

    Raises ModelError if Hibari's voice is not there. Piper is used if it is installed and its voice has been fetched.
    """
    folder = store / "bench-speech"
    voices = ["hibari"] if _piper_missing(store) else ["hibari", "piper"]
    groups: list[tuple[Clip, ...]] = []
    for texts in (QUESTIONS, LONG_QUESTIONS, (STOP,) * len(voices)):
        groups.append(tuple(_clip(folder, text, voices[at % len(voices)]) for at, text in enumerate(texts)))
    script = Script(*groups)
    missing = [clip for group in groups for clip in group if not Path(clip.path).is_file()]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        asyncio.run(_make(missing, store, on_clip))
    return script


def _clip(folder: Path, text: str, voice: str) -> Clip:
    digest = hashlib.sha256(f"{_EDITION}/{voice}/{text}".encode()).hexdigest()[:16]
    return Clip(text, voice, str(folder / f"{digest}.wav"))


def _piper_missing(store: Path) -> bool:
    try:
        import piper  # noqa: F401 - an extra of its own

        model_path(_PIPER, store, kind="tts")
    except (ImportError, ModelError):
        return True
    return False


async def _make(clips: Sequence[Clip], store: Path, on_clip: Callable[[str], None]) -> None:
    runtime = RuntimeSettings.model_validate({"model_store": store})
    for voice in dict.fromkeys(clip.voice for clip in clips):
        synthesizer = _synthesizer(voice, store, runtime)
        await synthesizer.load()
        try:
            for clip in clips:
                if clip.voice == voice:
                    on_clip(clip.text)
                    write_wav(clip.path, await _spoken(synthesizer, clip.text), OUTPUT_RATE_HZ)
        finally:
            await synthesizer.close()


def _synthesizer(voice: str, store: Path, runtime: RuntimeSettings) -> Synthesizer:
    if voice == "piper":
        from app.tts.piper import PiperSynthesizer

        return PiperSynthesizer(
            TtsSettings.model_validate({"backend": "piper"}), runtime, model_path(_PIPER, store, kind="tts")
        )
    from app.tts.hibari import HibariSynthesizer

    return HibariSynthesizer(TtsSettings.model_validate({}), runtime)


async def _spoken(synthesizer: Synthesizer, text: str) -> Pcm:
    """int16 at 48 kHz, its loudest sample at the same height in every clip."""
    sound = np.concatenate([chunk async for chunk in synthesizer.synthesize(text)])
    loudest = max(1, int(np.abs(sound.astype(np.int32)).max()))
    scaled: Pcm = (sound.astype(np.float32) * (_PEAK / loudest)).astype(np.int16)
    return resample(scaled, synthesizer.rate_hz, OUTPUT_RATE_HZ)
