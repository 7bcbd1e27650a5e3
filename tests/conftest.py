"""Fixtures for tests on the real models."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.catalog import entries, model_path, pull
from app.config import Settings, load_settings
from tests.kit.listening import Ear

ROOT = Path(__file__).resolve().parents[1]
_REAL_TIME = ("e2e", "transports", "web", "llm", "asr", "tts", "server", "cli", "client", "bench")
"""Folders whose tests run against a clock, a sound card or a browser: a busy machine may make them late, not wrong."""
_ALONE = ("e2e", "transports", "bench")
"""Folders whose tests want all cores: sound that is heard and spoken at its own pace."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test against the clock gets a second and a third try; the others must pass at once."""
    for item in items:
        folder = item.path.relative_to(ROOT / "tests").parts[0]
        if folder in _REAL_TIME:
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=1))
        if folder in _ALONE:
            item.add_marker(pytest.mark.alone)


@pytest.fixture(scope="session")
def settings() -> Settings:
    """The project's own config.toml, whatever the environment says."""
    return load_settings(ROOT / "config.toml", environment={})


@pytest.fixture(scope="session")
def store(settings: Settings) -> Path:
    """The model store with everything the tests need in it; fetched once, then found there."""
    folder = settings.runtime.model_store
    for entry in entries():
        if entry.default or entry.name == "piper-joe":
            pull(entry.name, folder)
    return folder


@pytest.fixture(scope="session")
def ear(store: Path) -> Ear:
    """Whisper, to hear what was really spoken."""
    from faster_whisper import WhisperModel

    return Ear(WhisperModel(str(model_path("whisper-base", store, kind="asr")), "cpu", compute_type="int8"))
