"""An engine on a loaded model, usually a tiny random one, stepped by the test."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from app.engine.blocks import BlockPool
from app.engine.engine import Engine
from app.engine.ledger import Ledger
from app.engine.loader import LoadedModel
from app.engine.messages import Delta, Message, SamplingSpec, Submit
from app.engine.scheduler import Limits
from tests.kit.engine_world import Listener


class Reply(Listener):
    @property
    def tokens(self) -> int:
        return sum(event.tokens for event in self.events if isinstance(event, Delta))


class TinyWorld:
    """Conversations are given as their turns, the user first."""

    def __init__(self, loaded: LoadedModel, *, blocks: int | None = None, step_tokens: int = 512) -> None:
        self.loaded = loaded
        self.pool = BlockPool(blocks or loaded.blocks, loaded.block_tokens)
        limits = Limits(loaded.context_tokens, 32, step_tokens)
        # Each look at the clock is a millisecond later, so that steps are planned alike on any machine.
        ticks = itertools.count()
        self.engine = Engine(
            loaded.backend,
            loaded.prompts,
            self.pool,
            limits,
            eos_ids=loaded.eos_ids,
            constrain=loaded.constrain,
            clock=lambda: next(ticks) / 1000.0,
        )

    def ask(self, *turns: str, session: str | None = None, system: str = "", **sampling: Any) -> Reply:
        messages = _messages(turns, system)
        spec = SamplingSpec(**{"max_tokens": 24, **sampling})
        reply = Reply()
        reply.key = self.engine.submit(Submit(1, messages, spec, session), reply)
        return reply

    def run(self) -> None:
        while self.engine.step():
            self.pool.check()

    def answered(self, *turns: str, session: str | None = None, **options: Any) -> Reply:
        reply = self.ask(*turns, session=session, **options)
        self.run()
        return reply

    def said(self, session: str, reply: Reply) -> tuple[list[int], list[int]]:
        """The ids of the prompt as the engine ran it, and of the reply: text that is no UTF-8 would not tell."""
        ids = list(self.engine.sessions.ledger(("", session)).ids)
        prompt_tokens = reply.done.counts.prompt_tokens
        return ids[:prompt_tokens], ids[prompt_tokens:]

    def prompt_ids(self, *turns: str, system: str = "") -> list[int]:
        ledger, *_ = self.loaded.prompts.build(_messages(turns, system), Ledger())
        return list(ledger.ids)


@torch.inference_mode()
def greedy(model: Any, prompt: list[int], said: list[int]) -> list[int]:
    """What the untouched model draws after the prompt and after each token of ``said``, in one plain forward pass.

    Equal to ``said`` if, and only if, that is what the model says when it is left alone.
    """
    logits = model(input_ids=torch.tensor([prompt + said]), use_cache=False).logits[0]
    drawn: list[int] = logits[len(prompt) - 1 : -1].argmax(-1).tolist()
    return drawn


def _messages(turns: tuple[str, ...], system: str) -> tuple[Message, ...]:
    spoken = [Message("assistant" if index % 2 else "user", turn) for index, turn in enumerate(turns)]
    return (Message("system", system), *spoken) if system else tuple(spoken)
