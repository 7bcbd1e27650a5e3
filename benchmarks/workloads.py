"""What the contenders are asked: the same prompts for the same seed, on every machine.

A workload is a list of conversations that start at the same moment. A conversation sends its turns one after the
other, each with all that was said before; conversations do not wait for each other.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Workload: TypeAlias = Literal["w1", "w2", "turns", "mixed"]
ChatMessage: TypeAlias = dict[str, str]

W1_REPLY_TOKENS = 64
W2_REPLY_TOKENS = 32
W2_TURNS = 6
EQUAL_TURNS = 6
EQUAL_NEW_TOKENS = 32
EQUAL_REPLY_TOKENS = 32
MIXED_PROMPT_TOKENS = (20, 400)
MIXED_REPLY_TOKENS = (8, 16, 24, 32, 48, 64)

_TEMPLATE_TOKENS = 18
"""What ChatML adds to a user message with a very short system message before it."""

_TURN_TOKENS = 10
"""...and to the user message of a later turn, with the end of the reply before it."""

# Common nouns that are one token each with the tokenisers of SmolLM, Llama and Qwen when a space stands before them.
_NOUNS = """
    bread cloud dress eagle field glass heart island jacket knife ladder metal night office paint rain sand table
    uncle valley wheel bottle camera desert energy father guitar horse image judge king leaf mirror novel opera
    pilot queen road shadow ticket union video wall yard basket circle dance earth flower ghost honey iron jungle
    kitchen lake
""".split()  # noqa: SIM905 - sixty quoted words would fill a page

_HOUSE_RULES = (
    "You answer the telephone of a small bicycle workshop. Whoever calls hears your answers and cannot see them, so speak "
    "in short and friendly sentences and leave out lists, tables, links and pictures. The workshop is open from Tuesday to "
    "Friday between eight and six, and on Saturday between nine and two. A full service takes one day and costs ninety "
    "euros; a flat tyre is mended while the customer waits and costs fifteen. When somebody wants to bring a bicycle, ask "
    "for the name first, then for the day, then for what is wrong with it, and say everything once more at the end so that "
    "it can be corrected. When somebody is angry about a bill, say that you are sorry and that the owner will call back "
    "before the evening. Never guess a price that you were not told. If you did not understand a sentence, ask the caller to "
    "say it again. If a question has nothing to do with bicycles, answer it in one sentence and come back to the bicycle. "
    "Stay calm, be quick, and use the language that the caller uses."
)


@dataclass(frozen=True, slots=True)
class Turn:
    text: str
    reply_tokens: int
    """Exactly: end-of-text tokens are ignored."""


@dataclass(frozen=True, slots=True)
class Conversation:
    system: str
    turns: tuple[Turn, ...]

    def opening(self) -> list[ChatMessage]:
        """The messages before the first turn; the caller appends turns and replies."""
        return [{"role": "system", "content": self.system}]


def make(workload: Workload, seed: str, concurrency: int) -> list[Conversation]:
    """The conversations of a run; another seed gives other prompts, so that no cache knows them yet."""
    match workload:
        case "w1":
            return [_story(random.Random(f"{seed}/{number}")) for number in range(concurrency)]
        case "w2":
            system = f"Line {random.Random(seed).randrange(10**5, 10**6)}. {_HOUSE_RULES}"
            return [_call(system, random.Random(f"{seed}/{number}")) for number in range(concurrency)]
        case "turns":
            return [_equal_turns(random.Random(f"{seed}/{number}")) for number in range(concurrency)]
        case "mixed":
            return [_errand(random.Random(f"{seed}/{number}")) for number in range(concurrency)]


def count_tokens(conversations: Sequence[Conversation]) -> int:
    """Tokens of all replies together."""
    return sum(turn.reply_tokens for conversation in conversations for turn in conversation.turns)


def _nouns(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(_NOUNS, k=count))


def _story(rng: random.Random) -> Conversation:
    """W1: about 100 prompt tokens that share no prefix, 64 reply tokens."""
    system = f"Caller {rng.randrange(10**5, 10**6)}. You tell stories."
    return Conversation(system, (Turn(f"Tell a long story with these words: {_nouns(rng, 61)}.", W1_REPLY_TOKENS),))


def _call(system: str, rng: random.Random) -> Conversation:
    """W2: a shared system prompt of about 230 tokens, six turns of about 20 new tokens, 32 reply tokens each."""
    turns = tuple(Turn(f"What do you know about {_nouns(rng, 14)}?", W2_REPLY_TOKENS) for _ in range(W2_TURNS))
    return Conversation(system, turns)


def _equal_turns(rng: random.Random) -> Conversation:
    """Turns: each prefills as many new tokens as the first, whose few tokens of system prompt are counted in."""
    system = f"{rng.randrange(10**3, 10**4)}"
    lengths = [EQUAL_NEW_TOKENS - _TEMPLATE_TOKENS, *[EQUAL_NEW_TOKENS - _TURN_TOKENS] * (EQUAL_TURNS - 1)]
    return Conversation(system, tuple(Turn(_nouns(rng, length), EQUAL_REPLY_TOKENS) for length in lengths))


def _errand(rng: random.Random) -> Conversation:
    """Mixed: prompts of 20 to 400 tokens, short ones as likely as long ones, and replies of 8 to 64."""
    tokens = rng.randint(*MIXED_PROMPT_TOKENS)
    system = f"{rng.randrange(10**3, 10**4)}"  # without one, some templates put in a long one of their own
    text = _nouns(rng, max(1, tokens - _TEMPLATE_TOKENS))
    return Conversation(system, (Turn(text, rng.choice(MIXED_REPLY_TOKENS)),))


def long_prompt(tokens: int, seed: str) -> list[ChatMessage]:
    """About ``tokens`` tokens in one message, for measuring who is held up by it."""
    rng = random.Random(seed)
    return [
        {"role": "system", "content": "You sum up."},
        {"role": "user", "content": f"Sum up: {_nouns(rng, tokens - _TEMPLATE_TOKENS - 4)}."},
    ]
