"""Voices and an ear, loaded once."""

from __future__ import annotations

from pathlib import Path

import pytest
from faster_whisper import WhisperModel

from app.catalog import model_path
from tests.kit.listening import Ear


@pytest.fixture(scope="session")
def ear(store: Path) -> Ear:
    return Ear(WhisperModel(str(model_path("whisper-base", store, kind="asr")), "cpu", compute_type="int8"))


@pytest.fixture(scope="session")
def joe(store: Path) -> Path:
    return model_path("piper-joe", store, kind="tts")
