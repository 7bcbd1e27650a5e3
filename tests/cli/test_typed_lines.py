"""Lines of a pipe are asked one after the other, whatever is in them and whatever else is said."""

from __future__ import annotations

import asyncio
import io
import sys
from typing import Any

import numpy as np
import pytest

from app.audio.frames import Pcm
from app.cli.talking import Conversation, Manner
from app.cli.view import PlainView
from app.config.settings import AudioSettings
from app.dialogue.ports import EventSink, WireEvent


class _Host:
    """Greets, and answers each line a little later; a question interrupts what is being said."""

    id = resume_token = "host"
    replaced = False

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.order: list[str] = []
        self._over = asyncio.Event()
        self._speaking: asyncio.Task[None] | None = None
        self._replies = 0

    async def open(self, send: EventSink) -> _Host:
        self._send = send
        self._speak()
        return self

    def receive(self, event: WireEvent) -> None:
        if event["type"] == "conversation.item.create":
            self.asked.append(event["item"]["content"][0]["text"])
            self._send({
                "type": "conversation.item.input_audio_transcription.completed", "item_id": "i", "transcript": ""
            })  # fmt: skip
        else:
            self._speak()

    def end(self, reason: str) -> None:
        self._send({"type": "parley.closed", "reason": reason})
        self._over.set()

    def push_audio(self, pcm: Pcm) -> None:
        return None

    def pull_audio(self, count: int) -> Pcm:
        return np.zeros(count, np.int16)

    async def close(self, reason: str) -> None:
        self._over.set()

    async def leave(self) -> None:
        self._over.set()

    async def wait_closed(self) -> None:
        await self._over.wait()

    def _speak(self) -> None:
        if self._speaking is not None and not self._speaking.done():
            self._speaking.cancel()
            self._tell("response.done", status="cancelled")
        self._replies += 1
        self._tell("response.created")
        self._speaking = asyncio.get_running_loop().create_task(self._finish())

    async def _finish(self) -> None:
        await asyncio.sleep(0.05)
        self._tell("response.done", status="completed")

    def _tell(self, kind: str, **more: Any) -> None:
        self.order.append(f"{self._replies} {more.get('status', 'begins')}")
        self._send({"type": kind, "response": {"id": f"r{self._replies}", **more}})


async def talk(host: _Host, monkeypatch: pytest.MonkeyPatch, data: bytes | None) -> bool:
    stdin = None if data is None else io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stdin)
    conversation = Conversation(host.open, AudioSettings(), PlainView(), Manner(typed=True, silent=True))
    async with asyncio.timeout(5):
        return await conversation.run()


async def test_each_line_waits_for_the_answer_to_the_last_even_where_a_greeting_ends_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = _Host()
    assert not await talk(host, monkeypatch, b"one\n\n   \ntwo\nthree")
    assert host.asked == ["one", "two", "three"]
    assert host.order == [
        *("1 begins", "1 cancelled", "2 begins", "2 completed"),
        *("3 begins", "3 completed", "4 begins", "4 completed"),
    ]


async def test_bytes_that_are_no_text_neither_stop_the_lines_nor_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    host = _Host()
    await talk(host, monkeypatch, b"caf\xe9\nnext\n")
    assert host.asked == ["caf�", "next"]


async def test_a_closed_input_is_one_without_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    host = _Host()
    await talk(host, monkeypatch, None)
    assert host.asked == []


async def test_a_line_that_no_session_takes_is_told_and_the_next_one_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host = _Host()
    await talk(host, monkeypatch, b"x" * 200_000 + b"\nnext\n")
    assert host.asked == ["next"]
    assert "at most 4000 are accepted" in capsys.readouterr().err


@pytest.mark.parametrize(("reason", "broke"), [("goodbye", False), ("internal_error", True), ("connection_lost", True)])
async def test_a_session_that_breaks_off_is_no_success(
    monkeypatch: pytest.MonkeyPatch, reason: str, broke: bool
) -> None:
    host = _Host()
    asyncio.get_running_loop().call_later(0.02, host.end, reason)
    assert await talk(host, monkeypatch, b"one\n" * 50) is broke


def test_when_nobody_reads_any_more_the_program_ends_as_with_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    view = PlainView()
    said = {"type": "conversation.item.input_audio_transcription.completed", "transcript": "hello"}
    with pytest.raises(KeyboardInterrupt):
        view.event(said)
    view.event(said)  # and no more
