"""The real stages with the default models, for end-to-end tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from app.audio import INPUT_RATE_HZ, Pcm, resample
from app.config import Settings
from app.tts import Synthesizer
from app.wiring import Parley, build


@asynccontextmanager
async def real_parley(settings: Settings, **overrides: dict[str, Any]) -> AsyncIterator[Parley]:
    """Everything loaded; ``overrides`` are sections of the settings."""
    tree = settings.model_dump()
    for section, values in overrides.items():
        tree[section] |= values
    async with build(Settings.model_validate(tree)) as parley:
        yield parley


async def spoken(voice: Synthesizer, text: str, *, lead_s: float = 0.4) -> Pcm:
    """``text`` as a person would say it into a microphone: int16, 16 kHz, silence in front."""
    parts = [chunk async for chunk in voice.synthesize(text)]
    speech = resample(np.concatenate(parts), voice.rate_hz, INPUT_RATE_HZ)
    return np.pad(speech, (int(lead_s * INPUT_RATE_HZ), 0))
