"""Everything at once and at random, for a hundred thousand steps, against an oracle of who owns which block."""

from __future__ import annotations

import random
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field

from app.engine.engine import Engine
from app.engine.messages import Delta, Done, Priority, ReplyEvent, SamplingSpec, Submit
from app.engine.prompt import PromptBuilder, Vocabulary
from app.engine.scheduler import Limits
from app.engine.sequence import Chunk, Draw, RunnerTraits
from tests.kit.engine_world import Clock, WipingPool, byte_tokenizer

STEPS = 100_000
BLOCKS, BLOCK_TOKENS = 26, 4
WIPED = [None] * BLOCK_TOKENS


def chain(ids: SequenceOf[int], start: int = 0) -> list[int]:
    """For each position a number that depends on all ids up to there."""
    marks: list[int] = []
    for token in ids:
        start = hash((start, token))
        marks.append(start)
    return marks


class ChainModel:
    """Keeps such numbers where a network keeps its keys and values, and draws the next token from the last of them."""

    traits = RunnerTraits(can_chunk=True, can_reuse=True)

    def __init__(self, letters: list[int], end: int) -> None:
        self._letters, self._end = letters, end
        self._memory: list[list[int | None]] = [WIPED.copy() for _ in range(BLOCKS)]
        self._marks: dict[int, list[int]] = {}

    def wipe(self, block: int) -> None:
        self._memory[block] = WIPED.copy()

    def next_token(self, mark: int) -> int:
        return self._end if mark % 41 == 0 else self._letters[mark % len(self._letters)]

    def step(self, chunks: SequenceOf[Chunk]) -> list[Draw]:
        for chunk in chunks:
            marks = self._marks_of(chunk)
            for position in range(chunk.start, chunk.stop):
                block = chunk.sequence.blocks[position // BLOCK_TOKENS]
                self._memory[block][position % BLOCK_TOKENS] = marks[position]
        draws = []
        for chunk in chunks:
            marks = self._marks_of(chunk)
            for number, block in enumerate(chunk.sequence.blocks[: -(-chunk.stop // BLOCK_TOKENS)]):
                start = number * BLOCK_TOKENS
                stop = min(start + BLOCK_TOKENS, chunk.stop)
                assert self._memory[block][: stop - start] == marks[start:stop], "the pool holds another's keys"
            if chunk.samples:
                draws.append(Draw(self.next_token(marks[chunk.stop - 1])))
        return draws

    def forget(self, key: int) -> None:
        self._marks.pop(key, None)

    def _marks_of(self, chunk: Chunk) -> list[int]:
        marks = self._marks.setdefault(chunk.sequence.key, [])
        if len(marks) < chunk.stop:
            marks += chain(chunk.sequence.ids[len(marks) : chunk.stop], marks[-1] if marks else 0)
        return marks


@dataclass
class Asked:
    """One request, and what came of it."""

    prompt: tuple[int, ...]
    tenant: str
    session: str | None
    only_prefill: bool
    max_tokens: int
    key: int = 0
    text: list[str] = field(default_factory=list)
    end: ReplyEvent | None = None

    def __call__(self, event: ReplyEvent) -> None:
        assert self.end is None, "an event after the terminal one"
        if isinstance(event, Delta):
            self.text.append(event.text)
        else:
            self.end = event


class Fuzz:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        tokenizer = byte_tokenizer()
        self.letters = [tokenizer.token_to_id(letter) for letter in "abcdefghijklmnopqrstuvwxyz"]
        self.end = tokenizer.token_to_id("<|im_end|>")
        self.model = ChainModel(self.letters, self.end)
        self.pool = WipingPool(BLOCKS, BLOCK_TOKENS, self.model.wipe)
        self.clock = Clock()
        self.vocabulary = Vocabulary(tokenizer)
        self.engine = Engine(
            self.model,
            PromptBuilder(self.vocabulary, None, context_tokens=72),
            self.pool,
            Limits(context_tokens=72, max_running=6, step_tokens=34),
            eos_ids=frozenset({self.end}),
            max_waiting=8,
            session_ttl_s=5.0,
            clock=self.clock,
        )
        self.open: list[Asked] = []
        self.known: dict[tuple[str, str], tuple[int, ...]] = {}
        self.shared = [tuple(self.dice.choices(self.letters, k=50)) for _ in range(3)]
        self.replies = self.drafts = self.cut = 0

    def act(self) -> None:
        dice = self.dice
        draw = dice.random()
        if draw < 0.16 and len(self.open) < 16:
            self.ask()
        elif draw < 0.19 and self.open:
            self.engine.cancel(dice.choice(self.open).key)
        elif draw < 0.205 and self.known:
            tenant, session = dice.choice(list(self.known))
            self.engine.truncate(session, dice.randint(0, 12), tenant)
            self.cut += 1
        elif draw < 0.21 and self.known:
            tenant, session = dice.choice(list(self.known))
            self.engine.end_session(session, tenant)
            del self.known[tenant, session]
        elif draw < 0.2105:
            self.clock.now_s += 6.0

    def ask(self) -> None:
        dice = self.dice
        tenant, session = dice.choice(("", "other")), f"s{dice.randint(0, 4)}" if dice.random() < 0.6 else None
        before = self.known.get((tenant, session), ()) if session is not None and dice.random() < 0.8 else ()
        prompt = before or dice.choice(self.shared)[: dice.randint(1, 50)]
        prompt = prompt[: dice.randint(1, 50)] + tuple(dice.choices(self.letters, k=dice.randint(1, 10)))
        only_prefill = session is not None and dice.random() < 0.2
        asked = Asked(prompt, tenant, session, only_prefill, dice.randint(1, 30))
        priorities: list[Priority] = ["low", "normal", "normal", "vip"]
        submit = Submit(
            1,
            (),
            SamplingSpec(max_tokens=asked.max_tokens),
            session,
            tenant,
            prompt=prompt,
            priority=dice.choice(priorities),
            spoken=dice.random() < 0.5,
            deadline_s=dice.choice((None, None, 0.5, 3.0)),
            only_prefill=only_prefill,
        )
        asked.key = self.engine.submit(submit, asked)
        self.open.append(asked)

    def look(self) -> None:
        """Whoever has ended said what its prompt alone leads to, and the books balance."""
        self.engine.scheduler.check()
        pool = self.pool
        assert pool.free + pool.cached + pool.held == BLOCKS
        if not any(asked.end for asked in self.open):
            return
        for asked in [asked for asked in self.open if asked.end is not None]:
            self.open.remove(asked)
            self.judge(asked)

    def judge(self, asked: Asked) -> None:
        expected, mark = [], chain(asked.prompt)[-1]
        while len(expected) < min(asked.max_tokens, 72 - len(asked.prompt)):
            token = self.model.next_token(mark)
            if token == self.end:
                break
            expected.append(token)
            mark = hash((mark, token))
        said, text = "".join(asked.text), self.vocabulary.decode(expected)
        if asked.only_prefill:
            assert not said
            self.drafts += isinstance(asked.end, Done) and asked.end.reason == "length"
        elif isinstance(asked.end, Done) and asked.end.reason != "cancelled":
            assert said == text
            self.replies += 1
        else:
            assert text.startswith(said)
            assert isinstance(asked.end, Done) or asked.end.code in ("stage_timeout", "overloaded")
        if asked.session is not None:
            self.known[asked.tenant, asked.session] = asked.prompt + tuple(expected[: len(said)])


def test_a_hundred_thousand_random_steps_keep_the_books_and_change_no_reply() -> None:
    fuzz = Fuzz(seed=3)
    engine = fuzz.engine
    steps = 0
    while steps % 1000 or engine.figures().steps < STEPS:
        steps += 1
        fuzz.act()
        fuzz.clock.now_s += fuzz.dice.random() * 0.06
        engine.step()
        fuzz.look()
    for asked in fuzz.open:
        engine.cancel(asked.key)
    engine.step()
    fuzz.look()
    for tenant, session in list(fuzz.known):
        engine.end_session(session, tenant)
    engine.step()
    fuzz.look()
    assert not fuzz.open
    assert fuzz.pool.held == 0
    figures = engine.figures()
    assert figures.running == figures.waiting == 0
    # The dice reached every corner.
    assert min(fuzz.replies, fuzz.drafts, fuzz.cut) > 300
    assert min(figures.preemptions, figures.evictions, figures.session_evictions, figures.timed_out) > 300
    assert min(figures.cancelled, figures.cached_tokens, figures.recomputed_tokens) > 300
    assert figures.resets == 0
