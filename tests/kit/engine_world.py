"""An engine without a neural network: real scheduler, pool, ledger and text; a model whose next token is a hash.

The model writes token ids into simulated blocks and reads its context back from them, and a block
is wiped the moment that it is free: so one that was freed too early, shared wrongly or overwritten
shows at once. Time is virtual where a test gives the steps a cost.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from app.engine.blocks import BlockPool
from app.engine.engine import Engine
from app.engine.messages import Delta, Done, Failed, Message, Priority, ReplyEvent, SamplingSpec, Submit
from app.engine.plan import step_size
from app.engine.prompt import PromptBuilder, Vocabulary
from app.engine.scheduler import Limits
from app.engine.sequence import Chunk, Draw, RunnerTraits

BLOCK_TOKENS = 32
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer() -> Tokenizer:
    """One token for each byte, and ChatML's control tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE({char: index for index, char in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("<|im_start|>", "<|im_end|>")])
    return tokenizer


def chatml(messages: list[dict[str, str]]) -> str:
    turns = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    return turns + "<|im_start|>assistant\n"


class HashModel:
    """Draws printable tokens from a hash of the whole context as the blocks hold it."""

    traits = RunnerTraits(can_chunk=True, can_reuse=True)

    def __init__(self, tokenizer: Tokenizer, blocks: int) -> None:
        self._memory: list[list[int]] = [[-1] * BLOCK_TOKENS for _ in range(blocks)]
        self._letters = [tokenizer.token_to_id(letter) for letter in "abcdefghijklmnopqrstuvwxyz"]
        self.script: Callable[[list[int]], int | None] = lambda context: None
        self.poison: Callable[[Chunk], bool] = lambda chunk: False
        self.in_between: Callable[[], None] = lambda: None
        """Called after the keys were written and before they are read: what another thread does meanwhile."""
        self.after: Callable[[Sequence[Chunk]], None] = lambda chunks: None
        self.largest_step = 0

    def wipe(self, block: int) -> None:
        self._memory[block] = [-1] * BLOCK_TOKENS

    def step(self, chunks: Sequence[Chunk]) -> list[Draw]:
        if any(self.poison(chunk) for chunk in chunks):
            raise RuntimeError("poisoned request")
        self.largest_step = max(self.largest_step, sum(chunk.count for chunk in chunks))
        for chunk in chunks:
            for position in range(chunk.start, chunk.stop):
                block = chunk.sequence.blocks[position // BLOCK_TOKENS]
                self._memory[block][position % BLOCK_TOKENS] = chunk.sequence.ids[position]
        self.in_between()
        drawn: list[int] = []
        for chunk in chunks:
            context = [
                self._memory[chunk.sequence.blocks[position // BLOCK_TOKENS]][position % BLOCK_TOKENS]
                for position in range(chunk.stop)
            ]
            assert context == chunk.sequence.ids[: chunk.stop], "the pool holds another conversation's tokens"
            if chunk.samples:
                scripted = self.script(context)
                digest = hashlib.blake2b(repr(context).encode(), digest_size=2).digest()
                drawn.append(
                    scripted
                    if scripted is not None
                    else self._letters[int.from_bytes(digest, "big") % len(self._letters)]
                )
        self.after(chunks)
        return [Draw(token) for token in drawn]

    def forget(self, key: int) -> None:
        pass


class WipingPool(BlockPool):
    """Tells which block has just become free."""

    def __init__(self, total: int, block_tokens: int, wipe: Callable[[int], None]) -> None:
        super().__init__(total, block_tokens)
        self._wipe = wipe

    def _set_free(self, block: int) -> None:
        super()._set_free(block)
        self._wipe(block)


@dataclass
class Listener:
    """Collects one request's events and insists on one terminal event, the last."""

    events: list[ReplyEvent] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)
    key: int = 0
    clock: Callable[[], float] = time.monotonic

    def __call__(self, event: ReplyEvent) -> None:
        assert not self.ended, "an event after the terminal one"
        self.events.append(event)
        self.times_s.append(self.clock())

    @property
    def ended(self) -> bool:
        return bool(self.events) and not isinstance(self.events[-1], Delta)

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, Delta))

    @property
    def tokens(self) -> int:
        return sum(event.tokens for event in self.events if isinstance(event, Delta))

    @property
    def done(self) -> Done:
        assert self.events, "nothing came"
        assert isinstance(self.events[-1], Done), self.events[-1]
        return self.events[-1]

    @property
    def failed(self) -> Failed:
        assert self.events, "nothing came"
        assert isinstance(self.events[-1], Failed), self.events[-1]
        return self.events[-1]


@dataclass
class Clock:
    """Stands still unless it is moved."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


class EngineWorld:
    """Engine, model and helpers to speak to them; every step is followed by a look at the books.

    With ``step_ms``, a function of rows and attended positions, time is virtual and passes in steps only.
    """

    def __init__(
        self,
        *,
        blocks: int = 64,
        context: int = 1024,
        max_running: int = 16,
        max_waiting: int = 256,
        session_ttl_s: float = 600.0,
        step_ms: Callable[[int, int], float] | None = None,
    ) -> None:
        self.tokenizer = byte_tokenizer()
        self.model = HashModel(self.tokenizer, blocks)
        self.pool = WipingPool(blocks, BLOCK_TOKENS, self.model.wipe)
        self.end_token = self.tokenizer.token_to_id("<|im_end|>")
        self.clock = Clock()
        if step_ms is not None:
            self.model.after = lambda chunks: self.sleep(step_ms(*step_size(chunks)) / 1000.0)
        self.engine = Engine(
            self.model,
            PromptBuilder(Vocabulary(self.tokenizer), chatml),
            self.pool,
            Limits(context, max_running),
            eos_ids=frozenset({self.end_token}),
            max_waiting=max_waiting,
            session_ttl_s=session_ttl_s,
            clock=self.clock if step_ms is not None else time.monotonic,
        )

    def ask(
        self,
        *turns: str,
        session: str | None = None,
        salt: str = "",
        priority: Priority = "normal",
        spoken: bool = False,
        deadline_s: float | None = None,
        only_prefill: bool = False,
        **sampling: object,
    ) -> Listener:
        """Submit a conversation whose turns alternate, the user first."""
        messages = tuple(Message("assistant" if i % 2 else "user", turn) for i, turn in enumerate(turns))
        spec = SamplingSpec(**{"max_tokens": 20, "ignore_eos": False, **sampling})  # type: ignore[arg-type]
        submit = Submit(
            1,
            messages,
            spec,
            session,
            salt,
            priority=priority,
            spoken=spoken,
            deadline_s=deadline_s,
            only_prefill=only_prefill,
        )
        listener = Listener(clock=self.clock)
        listener.key = self.engine.submit(submit, listener)
        return listener

    def sleep(self, seconds: float) -> None:
        self.clock.now_s += seconds

    def step(self) -> bool:
        worked = self.engine.step()
        self.engine.scheduler.check()
        return worked

    def run(self, steps: int = 5000) -> None:
        for _ in range(steps):
            if not self.step():
                return
        raise AssertionError("the engine does not come to rest")

    def run_until(self, happened: Callable[[], bool], steps: int = 5000) -> int:
        """How many steps it took."""
        for number in range(steps):
            if happened():
                return number
            self.step()
        raise AssertionError("it does not happen")
