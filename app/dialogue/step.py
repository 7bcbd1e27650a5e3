"""The draft of one transition: the state being changed and the commands being given.

A draft lives only inside ``machine.reduce``; outside it states are immutable.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from app.dialogue.commands import Command, Tell
from app.dialogue.state import Reply, State, Timer, Utterance


@dataclass(slots=True)
class Step:
    state: State
    now: float
    commands: list[Command] = field(default_factory=list)

    def change(self, **fields: Any) -> None:
        self.state = replace(self.state, **fields)

    def change_utterance(self, **fields: Any) -> Utterance:
        assert self.state.utterance is not None
        utterance = replace(self.state.utterance, **fields)
        self.change(utterance=utterance)
        return utterance

    def change_reply(self, **fields: Any) -> Reply:
        assert self.state.reply is not None
        reply = replace(self.state.reply, **fields)
        self.change(reply=reply)
        return reply

    def do(self, *commands: Command) -> None:
        self.commands.extend(commands)

    def tell(self, type: str, **fields: Any) -> None:
        self.commands.append(Tell(type, fields))

    def set_timer(self, timer: Timer, after_s: float) -> None:
        self.change(timers=MappingProxyType({**self.state.timers, timer: self.now + after_s}))

    def clear_timers(self, *timers: Timer) -> None:
        if any(timer in self.state.timers for timer in timers):
            kept = {name: at for name, at in self.state.timers.items() if name not in timers}
            self.change(timers=MappingProxyType(kept))

    def new_item_id(self) -> str:
        self.change(items=self.state.items + 1)
        return f"item_{self.state.items}"
