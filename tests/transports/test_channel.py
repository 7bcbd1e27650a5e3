"""The event channel by itself: what waits, what overflows, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.transports.webrtc.channel import LABEL, EventChannel


class Pipe:
    """What EventChannel uses of an RTCDataChannel whose network takes nothing."""

    def __init__(self, label: str = LABEL) -> None:
        self.label = label
        self.readyState = "open"
        self.sent: list[dict[str, Any]] = []
        self.bufferedAmount = 0
        self.listeners: dict[str, Callable[[Any], None]] = {}

    def on(self, event: str, listener: Callable[[Any], None]) -> None:
        self.listeners[event] = listener

    def send(self, text: str) -> None:
        self.sent.append(json.loads(text))
        self.bufferedAmount += len(text)


class World:
    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.overflows = 0
        self.channel = EventChannel(self.received.append, lambda: None, self._overflow)
        self.pipe = Pipe()

    def _overflow(self) -> None:
        self.overflows += 1

    def open(self) -> None:
        self.channel.attach(self.pipe)  # type: ignore[arg-type]


def test_what_was_said_before_the_channel_opened_comes_first_and_in_order() -> None:
    world = World()
    for index in range(3):
        world.channel.send({"type": "early", "index": index})
    world.open()
    world.channel.send({"type": "late"})
    assert [event.get("index", "late") for event in world.pipe.sent] == [0, 1, 2, "late"]


def test_of_what_waits_for_the_channel_none_is_left_out_or_the_call_ends() -> None:
    world = World()
    for index in range(1000):
        world.channel.send({"type": "early", "index": index})
    world.open()
    assert [event["index"] for event in world.pipe.sent] == list(range(1000))
    world = World()
    for _ in range(3000):
        world.channel.send({"type": "early", "text": "x" * 1000})
    assert world.overflows == 1
    world.open()
    assert not world.pipe.sent


@pytest.mark.parametrize("depth", [40, 300, 900, 20_000])
@pytest.mark.parametrize("event", ['{"type":"response.cancel","x":%s}', '{"type":"parley.ping","id":%s}'])
def test_an_event_without_a_bottom_is_refused(event: str, depth: int) -> None:
    world = World()
    world.open()
    world.pipe.listeners["message"](event % ("[" * depth + "]" * depth))
    assert not world.received
    assert "nested" in world.pipe.sent[-1]["error"]["message"]


def test_a_client_that_takes_nothing_loses_the_call_once_and_never_a_single_event_of_many() -> None:
    world = World()
    world.open()
    for index in range(3000):
        world.channel.send({"type": "event", "index": index, "text": "x" * 1000})
    assert world.overflows == 1
    assert [event["index"] for event in world.pipe.sent] == list(range(len(world.pipe.sent)))
    assert world.pipe.bufferedAmount <= 1 << 20
    assert len(world.pipe.sent) > 900
    world.pipe.bufferedAmount = 0
    world.channel.send({"type": "after"})
    assert world.pipe.sent[-1]["type"] == "event", "after a gap the rest would only mislead"


def test_a_channel_of_another_name_and_a_second_one_are_ignored() -> None:
    world = World()
    other = Pipe("chat")
    world.channel.attach(other)  # type: ignore[arg-type]
    world.open()
    second = Pipe()
    world.channel.attach(second)  # type: ignore[arg-type]
    world.channel.send({"type": "hello"})
    assert [event["type"] for event in world.pipe.sent] == ["hello"]
    assert other.listeners == second.listeners == {}
