"""What a saved turn tells of the settings: all that shapes a turn, and nothing that is somebody's secret."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from app.config import Settings

_SECTIONS = ("assistant", "llm", "asr", "tts", "vad", "turn", "audio", "runtime")
"""``server`` has keys, passwords, hosts and paths, and nothing that a turn depends on."""
_LEFT_OUT = frozenset({"api_key", "base_url", "model_store"})
"""The address of a server may hold a password, and the folder of the models somebody's name."""


def open_settings(settings: Settings) -> dict[str, dict[str, Any]]:
    """The settings by section and key, as JSON has them, without secrets; of a model's path only its last part."""
    tree = settings.model_dump(mode="json", include=set(_SECTIONS))
    return {
        section: {key: _open(key, value) for key, value in values.items() if key not in _LEFT_OUT}
        for section, values in tree.items()
    }


def _open(key: str, value: Any) -> Any:
    return model_name(value) if key == "model" and isinstance(value, str) else value


def model_name(model: str) -> str:
    """As the setting has it, but of a path only the last part."""
    return PurePath(model).name if PurePath(model).is_absolute() else model
