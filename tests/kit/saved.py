"""Saved turns of scripted conversations, and their replay on recorded stages, all in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.replay.bundle import Bundle, read_bundle
from app.replay.run import Replay, Replayed
from app.replay.settings import settings_for
from app.replay.stages import Recorded
from app.replay.virtual_time import run_virtual
from app.telemetry.turns import KeptTurns
from app.telemetry.turns.bundle import bundle
from app.telemetry.turns.config import open_settings
from tests.kit.script import LoudnessDetector, Script


@dataclass(frozen=True, slots=True)
class Saved:
    """The turns of one scripted conversation as files' contents, and what it was in the end."""

    turns: list[bytes]
    history: list[tuple[str, str]]
    token: str


def save(talk: Callable[[Script], Awaitable[object]], *, kept_mb: int = 32, **world: Any) -> Saved:
    """Hold the conversation that ``talk`` is, and save each of its turns after the session has ended."""

    async def main() -> Saved:
        kept = KeptTurns(kept_mb)
        async with Script(kept=kept, **world) as script:
            await talk(script)
            token, history = script.session.resume_token, script.history
        ids = [event["response"]["id"] for event in script.told("response.done")]
        files = [bundle(kept.find(token, id), open_settings(script.settings)) for id in ids]
        return Saved(files, history, token)

    return run_virtual(main())


def read(content: bytes, folder: Path) -> Bundle:
    path = folder / "turn.zip"
    path.write_bytes(content)
    return read_bundle(path)


def replay(saved: Bundle, settings: Any) -> tuple[Replayed, list[str]]:
    """On recorded stages; and what the recording did not hold."""
    used = settings_for(saved, settings, recorded=True, own_config=False)

    async def main() -> tuple[Replayed, list[str]]:
        run = Replay(saved, used, limit_s=60.0)
        recorded = Recorded(saved, run.clock)
        stages = recorded.stages(lambda: LoudnessDetector(used.vad.silence_ms), saved, turn_model=True)
        return await run.run(stages), recorded.missed

    return run_virtual(main())
