from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from app.catalog import model_path
from benchmarks.workloads import (
    EQUAL_NEW_TOKENS,
    MIXED_PROMPT_TOKENS,
    ChatMessage,
    Conversation,
    Workload,
    count_tokens,
    long_prompt,
    make,
)


@pytest.fixture(scope="module")
def length(store: Path) -> Callable[[list[ChatMessage]], int]:
    """Tokens of a prompt in the default model's own template, which is ChatML."""
    folder = model_path("smollm2-135m-instruct", store, kind="llm")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def count(messages: list[ChatMessage]) -> int:
        turns = "".join(f"<|im_start|>{one['role']}\n{one['content']}<|im_end|>\n" for one in messages)
        return len(tokenizer.encode(f"{turns}<|im_start|>assistant\n").ids)

    return count


def first_prompt(conversation: Conversation) -> list[ChatMessage]:
    return [*conversation.opening(), {"role": "user", "content": conversation.turns[0].text}]


@pytest.mark.parametrize("workload", ["w1", "w2", "turns", "mixed"])
def test_a_seed_always_gives_the_same_prompts_and_another_seed_others(workload: Workload) -> None:
    assert make(workload, "a", 5) == make(workload, "a", 5)
    assert make(workload, "a", 5) != make(workload, "b", 5)
    assert make(workload, "a", 5) == make(workload, "a", 9)[:5]


def test_w1_prompts_have_a_hundred_tokens_and_share_no_more_than_the_template(length) -> None:
    conversations = make("w1", "seed", 32)
    assert {length(first_prompt(one)) for one in conversations} <= set(range(95, 106))
    assert len({one.system for one in conversations}) == 32
    assert count_tokens(conversations) == 32 * 64


def test_w2_calls_share_a_system_prompt_and_nothing_else(length) -> None:
    conversations = make("w2", "seed", 16)
    assert len({one.system for one in conversations}) == 1
    assert 225 <= length(conversations[0].opening()) <= 240
    assert len({turn.text for one in conversations for turn in one.turns}) == 16 * 6
    assert {turn.reply_tokens for one in conversations for turn in one.turns} == {32}


def test_another_w2_run_shares_no_prefix_with_the_last_one() -> None:
    assert make("w2", "a", 1)[0].system[:11] != make("w2", "b", 1)[0].system[:11]


def test_mixed_prompts_and_replies_keep_to_their_ranges(length) -> None:
    conversations = make("mixed", "seed", 100)
    lengths = [length(first_prompt(one)) for one in conversations]
    low, high = MIXED_PROMPT_TOKENS
    assert low <= min(lengths)
    assert max(lengths) <= high
    assert max(lengths) - min(lengths) > 300
    assert len({one.turns[0].reply_tokens for one in conversations}) == 6


def test_each_of_the_equal_turns_adds_as_many_tokens(length) -> None:
    [conversation] = make("turns", "seed", 1)
    messages, known, added = conversation.opening(), 0, []
    for turn in conversation.turns:
        messages.append({"role": "user", "content": turn.text})
        added.append(length(messages) - known)
        messages.append({"role": "assistant", "content": " bread" * turn.reply_tokens})
        known = length(messages) - 6  # without the next opening and the end of the reply, which no engine has run yet
    assert max(added) - min(added) <= 2
    assert abs(added[0] - EQUAL_NEW_TOKENS) <= 2


def test_the_long_prompt_has_the_length_that_was_asked_for(length) -> None:
    assert abs(length(long_prompt(4000, "seed")) - 4000) <= 5
