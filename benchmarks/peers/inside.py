"""The frame of a peer that is measured in its own process, because it has no server or is faster without.

It speaks JSON lines: one when it is ready, then an answer for each run that it is told to do. Runs in the peer's own
virtual environment, so it imports nothing that is not in the standard library.

Such a peer is spared what a server does for each token: no detokenising, no JSON, no sockets.
"""

from __future__ import annotations

import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.measure import Reply
from benchmarks.workloads import ChatMessage, Conversation, make


@dataclass(frozen=True, slots=True)
class Progress:
    """``tokens`` more of the reply with that key; ``text`` is all of it once it is complete."""

    key: int
    tokens: int
    text: str | None = None


class Engine(ABC):
    """A peer with its model loaded."""

    @abstractmethod
    def hold(self, conversations: Sequence[Conversation]) -> list[list[Reply]]:
        """Hold the conversations at once; the replies of each in the order of its turns."""


class ContinuousEngine(Engine):
    """A peer that takes requests at any time and reports tokens as they come."""

    @abstractmethod
    def begin(self, key: int, messages: Sequence[ChatMessage], reply_tokens: int) -> int:
        """Take a request; returns the tokens of its prompt."""

    @abstractmethod
    def advance(self) -> list[Progress]:
        """Work, or wait, until there is something to report."""

    def hold(self, conversations: Sequence[Conversation]) -> list[list[Reply]]:
        held = [_Held(conversation, conversation.opening()) for conversation in conversations]
        for key, one in enumerate(held):
            self._begin_turn(key, one)
        while any(one.open for one in held):
            for progress in self.advance():
                one = held[progress.key]
                now = time.perf_counter()
                one.stamps += [now] * (1 if progress.tokens else 0)
                one.tokens += progress.tokens
                if progress.text is not None:
                    one.finish(progress.text, now)
                    if one.open:
                        self._begin_turn(progress.key, one)
        return [one.replies for one in held]

    def _begin_turn(self, key: int, held: _Held) -> None:
        turn = held.conversation.turns[len(held.replies)]
        held.messages.append({"role": "user", "content": turn.text})
        held.sent_s, held.stamps, held.tokens = time.perf_counter(), [], 0
        held.prompt_tokens = self.begin(key, held.messages, turn.reply_tokens)


@dataclass(slots=True)
class _Held:
    """A conversation in progress."""

    conversation: Conversation
    messages: list[ChatMessage]
    replies: list[Reply] = field(default_factory=list)
    sent_s: float = 0.0
    stamps: list[float] = field(default_factory=list)
    tokens: int = 0
    prompt_tokens: int = 0

    @property
    def open(self) -> bool:
        return len(self.replies) < len(self.conversation.turns)

    def finish(self, text: str, now: float) -> None:
        wanted = self.conversation.turns[len(self.replies)].reply_tokens
        self.replies.append(
            Reply(
                self.sent_s, tuple(self.stamps), now, self.tokens, wanted, prompt_tokens=self.prompt_tokens, text=text
            )
        )
        self.messages.append({"role": "assistant", "content": text})


def serve(load: Callable[[], Engine]) -> None:
    """Load, then do as standard input says until it ends."""
    # Libraries print to standard output as they like: the protocol keeps a copy of it for itself.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    engine = load()
    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            held = engine.hold(make(asked["workload"], asked["seed"], asked["concurrency"]))
            answer: dict[str, object] = {"replies": [[reply.as_json() for reply in one] for one in held]}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers)
