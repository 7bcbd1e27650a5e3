"""Settings, read from config.toml, the environment and flags."""

from app.config.load import known_keys, load_settings, settings_folder
from app.config.settings import (
    AsrSettings,
    AssistantSettings,
    AudioSettings,
    LlmSettings,
    RuntimeSettings,
    ServerSettings,
    Settings,
    TtsSettings,
    TurnSettings,
    VadSettings,
)

__all__ = [
    "AsrSettings",
    "AssistantSettings",
    "AudioSettings",
    "LlmSettings",
    "RuntimeSettings",
    "ServerSettings",
    "Settings",
    "TtsSettings",
    "TurnSettings",
    "VadSettings",
    "known_keys",
    "load_settings",
    "settings_folder",
]
