"""Settings, read from config.toml, the environment and flags."""

from app.config.settings import Settings

__all__ = ["Settings"]
