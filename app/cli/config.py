"""Show the settings as they are in force: defaults, config.toml, environment and flags together."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping

from app.config import Settings

EXAMPLES = """examples:
  python -m app config
  PARLEY_LLM__MODEL=./my-model python -m app config
"""
_SECRETS = frozenset({"api_key", "api_keys", "token"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No flags of its own."""


def overrides(args: argparse.Namespace) -> Mapping[str, str]:
    return {}


def run(settings: Settings) -> int:
    for section, values in settings.model_dump(mode="json").items():
        print(f"[{section}]")
        for key, value in values.items():
            shown = "********" if key in _SECRETS and value else value
            print(f"{key} = {json.dumps(shown, ensure_ascii=False)}")
        print()
    return 0
