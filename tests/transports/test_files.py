"""Conversations from files: every turn comes to an end, whatever the session makes of it."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from app.cli.main import main
from app.dialogue.ports import EventSink
from app.dialogue.seat import Seat
from app.dialogue.session import Session
from app.transports.files import FileConversation
from tests.kit.script import FakeRecognizer, Script
from tests.kit.virtual_time import run_virtual

QUIET = np.zeros(16000, np.int16)
SPEECH = np.concatenate((np.full(16000, 5000, np.int16), QUIET))


class OneSession:
    """A host whose session is that of ``script``, with its events told to the conversation as well."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.active = 1

    async def open(self, send: EventSink, *, transport: str) -> Seat:
        stages = self._script.session._stages
        session = Session("sess_files", stages, self._script.settings, send)
        await session.started()
        return Seat(session, send)


def conversation(script: Script) -> FileConversation:
    return FileConversation(OneSession(script), nothing_heard_s=3.0)


def test_a_silent_file_is_unanswered_soon_after_its_end_and_the_next_is_spoken() -> None:
    async def world() -> None:
        asr = FakeRecognizer(["what is the time"])
        async with Script(asr=asr, asr_={"partial_ms": 0}) as script, conversation(script) as talk:
            loop = asyncio.get_running_loop()
            began = loop.time()
            turn = await talk.speak(QUIET)
            assert (turn.status, turn.user, turn.reply) == ("unanswered", "", "")
            assert 3.98 <= loop.time() - began < 4.2, "3 s after the file"
            after = await talk.speak(SPEECH)
            assert (after.status, after.user) == ("completed", "what is the time")

    run_virtual(world())


@pytest.mark.parametrize(("text", "why"), [(" ", "the text is empty"), ("x" * 4001, "at most 4000")])
def test_what_the_session_refuses_ends_the_turn_at_once_and_says_why(text: str, why: str) -> None:
    async def world() -> None:
        async with Script() as script, conversation(script) as talk:
            began = asyncio.get_running_loop().time()
            turn = await talk.type(text)
            assert asyncio.get_running_loop().time() - began < 0.1
            assert turn.status == "refused"
            assert why in turn.errors[0]
            assert (await talk.type("Hello.")).status == "completed"

    run_virtual(world())


def test_after_a_goodbye_nothing_more_is_said() -> None:
    async def world() -> None:
        async with Script() as script, conversation(script) as talk:
            assert (await talk.type("Goodbye.")).status == "completed"
            turn = await talk.speak(np.concatenate((QUIET, SPEECH)))
            assert (turn.status, turn.errors, talk.closed) == ("closed", (), "goodbye")
            assert (await talk.type("Hello?")).status == "closed"

    run_virtual(world())


@pytest.mark.parametrize("text", ["", " ", "x" * 4001])
def test_talk_tells_what_no_session_takes_before_it_loads_anything(
    text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*_: Any, **__: Any) -> None:
        raise AssertionError("models are loaded")

    monkeypatch.setattr("app.cli.talk.build", build)
    assert main(["talk", "--text", "Hello.", "--text", text]) == 2
    assert "item.content: " in capsys.readouterr().err
