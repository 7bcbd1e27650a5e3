"""A real conversation is saved, and its turns are run again on the real models and on what was recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from app.audio import VoiceActivity, load_vad
from app.config import Settings
from app.replay.bundle import Bundle, read_bundle
from app.replay.compare import differences
from app.replay.course import saved_course
from app.replay.run import Replay, Replayed
from app.replay.settings import settings_for
from app.replay.stages import Recorded
from app.replay.virtual_time import run_virtual
from app.telemetry.turns.bundle import bundle
from app.telemetry.turns.config import open_settings
from app.transports.files import FileConversation
from tests.kit.stages import real_parley, spoken


async def talk_and_replay(settings: Settings, folder: Path) -> tuple[list[Bundle], Replayed]:
    """A spoken and a typed turn; the first is run again at once, on the same models."""
    told: list[Any] = []
    async with real_parley(settings, llm={"max_tokens": 24}) as parley:
        async with FileConversation(parley.host, told.append) as conversation:
            await conversation.speak(await spoken(parley.stages.tts, "What is the capital of France?"))
            await conversation.type("And of Italy?")
            token = conversation.session.resume_token
        saved = []
        for event in told:
            if event["type"] == "response.done":
                name = event["response"]["id"]
                path = folder / f"{name}.zip"
                turn = parley.host.turns.find(token, name)
                path.write_bytes(await asyncio.to_thread(bundle, turn, open_settings(settings)))
                saved.append(read_bundle(path))
        own = settings.model_copy(update={"llm": settings.llm.model_copy(update={"max_tokens": 24})})
        used = settings_for(saved[0], own, recorded=False, own_config=False)
        return saved, await Replay(saved[0], used, limit_s=60.0).run(parley.stages)


def on_recorded_stages(saved: Bundle, settings: Settings) -> Replayed:
    used = settings_for(saved, settings, recorded=True, own_config=False)
    model, _ = load_vad(used.vad)

    async def main() -> Replayed:
        run = Replay(saved, used, limit_s=60.0)
        detector = lambda: VoiceActivity(model, used.vad)  # noqa: E731
        return await run.run(Recorded(saved, run.clock).stages(detector, saved, turn_model=True))

    return run_virtual(main())


def test_a_saved_conversation_goes_the_same_way_again(settings: Settings, store: Path, tmp_path: Path) -> None:
    saved, again = asyncio.run(talk_and_replay(settings, tmp_path))
    first = saved_course(saved[0])
    assert "capital of France" in first.user
    assert again.ended
    assert not [found for found in differences(first, again.course, recorded=False) if found.matters]
    assert again.course.reply == first.reply  # greedy, and alone or not: bit for bit
    assert len(saved) == 2
    assert saved[1].facts.history[-1].text == first.reply
    for turn in saved:
        recorded = on_recorded_stages(turn, settings)
        assert not [found for found in differences(saved_course(turn), recorded.course, recorded=True) if found.matters]
