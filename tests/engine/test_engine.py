from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.kit.engine_world import EngineWorld


def test_a_thousand_cancels_at_every_state_leave_nothing_behind() -> None:
    world = EngineWorld(blocks=24, context=600, max_running=12)
    dice = random.Random(7)
    open_requests, everyone = [], []
    for number in range(1000):
        prompt = dice.choice(["short", "a longer prompt " * dice.randint(1, 20)])
        session = f"s{dice.randint(0, 5)}" if dice.random() < 0.3 else None
        request = world.ask(f"{prompt}{number}", session=session, max_tokens=dice.randint(1, 60))
        open_requests.append(request)
        everyone.append(request)
        for _ in range(dice.randint(0, 3)):
            world.step()
        if len(open_requests) < 15:
            continue  # keep a crowd, so that the pool runs short
        victim = open_requests.pop(dice.randrange(len(open_requests)))
        world.engine.cancel(victim.key)
        if dice.random() < 0.5:
            world.step()
            assert victim.ended, "a cancel takes one step"
        if dice.random() < 0.05:
            world.engine.end_session(f"s{dice.randint(0, 5)}")
    world.run()
    assert all(request.ended for request in everyone)
    for number in range(6):
        world.engine.end_session(f"s{number}")
    world.run()
    assert world.pool.held == 0
    assert world.pool.free + world.pool.cached == world.pool.total
    assert world.engine.figures().preemptions > 0, "the pool was meant to run short"


def test_what_others_do_never_changes_a_reply() -> None:
    prompts = [f"question {number} " * (number % 7 + 1) for number in range(24)]
    alone = []
    for prompt in prompts:
        world = EngineWorld()
        reply = world.ask(prompt, max_tokens=70)
        world.run()
        alone.append(reply.text)
    crowded = EngineWorld(blocks=20, context=600, max_running=12)
    replies = [crowded.ask(prompt, max_tokens=70) for prompt in prompts]
    crowded.run()
    assert crowded.engine.figures().preemptions > 0
    assert [reply.text for reply in replies] == alone


@pytest.mark.parametrize("max_tokens", [1, 20, None])
def test_a_prompt_without_room_for_a_reply_is_refused_and_others_go_on(max_tokens: int | None) -> None:
    world = EngineWorld(context=1024)
    others = [world.ask(f"other {number}", max_tokens=30) for number in range(4)]
    world.step()
    refused = world.ask("x" * 2000, max_tokens=max_tokens)
    world.run()
    assert refused.failed.code == "context_length_exceeded"
    assert "llm.context_tokens" in refused.failed.message
    assert all(other.done.counts.completion_tokens == 30 for other in others)


@pytest.mark.parametrize("max_tokens", [2000, None])
def test_a_reply_may_be_as_long_as_there_is_room(max_tokens: int | None) -> None:
    world = EngineWorld(context=200)
    reply = world.ask("hi", max_tokens=max_tokens)
    world.run()
    assert reply.done.reason == "length"
    assert reply.done.counts.prompt_tokens + reply.done.counts.completion_tokens == 200


def test_a_prompt_longer_than_the_pool_is_refused_by_the_pools_name() -> None:
    world = EngineWorld(blocks=4, context=1024)
    refused = world.ask("x" * 400)
    world.run()
    assert "llm.kv_cache_mb" in refused.failed.message


def test_a_full_queue_refuses_with_a_time_to_come_back() -> None:
    world = EngineWorld(max_running=2, max_waiting=2)
    taken = [world.ask("hello") for _ in range(4)]
    refused = world.ask("one too many")
    world.run()
    assert refused.failed.code == "overloaded"
    assert refused.failed.retry_after_s > 0
    assert all(reply.done.reason == "length" for reply in taken)


def test_the_second_turn_prefills_only_what_is_new() -> None:
    world = EngineWorld()
    first = world.ask("what is the tallest mountain", session="s", max_tokens=50)
    world.run()
    before = world.engine.figures().prefill_tokens
    second = world.ask("what is the tallest mountain", first.text, "and the next", session="s")
    world.run()
    counts = second.done.counts
    # The last drawn token never went through the model; template and question come on top.
    new = len("<|im_end|>\n<|im_start|>user\nand the next<|im_end|>\n<|im_start|>assistant\n") - 4 * 9 - 3 + 1
    assert counts.prompt_tokens - counts.cached_tokens <= new + 3
    assert world.engine.figures().prefill_tokens - before == counts.prompt_tokens - counts.cached_tokens


def test_an_interrupted_reply_keeps_what_was_heard() -> None:
    world = EngineWorld()
    reply = world.ask("tell me a story", session="s", max_tokens=80)
    for _ in range(30):
        world.step()
    world.engine.cancel(reply.key)
    world.run()
    assert reply.done.reason == "cancelled"
    heard = reply.text[:11]
    follow = world.ask("tell me a story", heard, "stop", session="s")
    world.run()
    afresh = EngineWorld()
    same = afresh.ask("tell me a story", heard, "stop")
    afresh.run()
    assert follow.text == same.text
    assert follow.done.counts.cached_tokens >= 30


def test_a_newer_request_of_a_session_ends_the_older_one_first() -> None:
    world = EngineWorld()
    older = world.ask("first", session="s", max_tokens=100)
    world.step()
    middle = world.ask("second", session="s", max_tokens=10)
    newest = world.ask("third", session="s", max_tokens=10)
    world.run()
    assert older.done.reason == "cancelled"
    assert middle.done.reason == "cancelled"
    assert newest.done.reason == "length"


def test_sessions_evicted_for_room_come_back_from_their_messages() -> None:
    world = EngineWorld(blocks=16, context=480)
    secrets = {f"s{number}": f"the secret of {number} is {number * 7919}" for number in range(16)}
    replies = {}
    for session, secret in secrets.items():
        replies[session] = world.ask(secret, session=session, max_tokens=20)
        world.run()
    for session, secret in secrets.items():
        again = world.ask(secret, replies[session].text, "and", session=session)
        world.run()
        alone = EngineWorld()
        expected = alone.ask(secret, replies[session].text, "and")
        alone.run()
        assert again.text == expected.text


def test_a_shared_beginning_is_computed_once() -> None:
    world = EngineWorld()
    preamble = "a long preamble that everybody shares " * 5
    world.ask(preamble + "one")
    world.run()
    second = world.ask(preamble + "two")
    world.run()
    assert second.done.counts.cached_tokens >= len(preamble) - 32


def test_a_step_that_fails_loses_only_the_request_at_fault() -> None:
    world = EngineWorld()
    bad = world.ask("poison", max_tokens=30)
    good = [world.ask(f"fine {number}", max_tokens=30) for number in range(3)]
    world.model.poison = lambda chunk: chunk.sequence.key == bad.key and chunk.start > 0
    world.run()
    assert bad.failed.code == "stage_failed"
    assert all(reply.done.counts.completion_tokens == 30 for reply in good)
    assert world.pool.held == 0


def test_a_long_prompt_is_taken_in_parts_between_the_others_tokens() -> None:
    world = EngineWorld(blocks=128, context=4000)
    chatting = world.ask("chat", max_tokens=100)
    world.step()
    long = world.ask("word " * 600, max_tokens=5)
    tokens_before = len(chatting.events)
    steps = 0
    while not long.events:
        world.step()
        steps += 1
    assert steps > 5
    assert len(chatting.events) - tokens_before >= steps - 1, "every step also decoded"
    assert world.model.largest_step <= 512


def test_a_stop_string_ends_the_reply_and_is_not_shown() -> None:
    probe = EngineWorld()
    full = probe.ask("tell", max_tokens=40)
    probe.run()
    stop = full.text[10:13]
    world = EngineWorld()
    cut = world.ask("tell", max_tokens=40, stop=(stop,))
    world.run()
    assert cut.text == full.text[: full.text.index(stop)]
    assert cut.done.reason == "stop"


def test_the_end_token_ends_the_reply() -> None:
    world = EngineWorld()
    length = 0

    def script(context: list[int]) -> int | None:
        nonlocal length
        length += 1
        return world.end_token if length > 5 else None

    world.model.script = script
    reply = world.ask("hello")
    world.run()
    assert reply.done.reason == "stop"
    assert len(reply.text) == 5


def test_a_reply_that_loops_is_ended() -> None:
    world = EngineWorld()
    letters = [world.tokenizer.token_to_id(letter) for letter in "again"]
    world.model.script = lambda context: letters[len(context) % len(letters)]
    reply = world.ask("go on", max_tokens=500)
    world.run()
    assert reply.done.reason == "stop"
    assert reply.done.counts.completion_tokens < 60


def test_a_bad_request_is_refused_by_itself() -> None:
    world = EngineWorld()
    refused = world.ask("hi", temperature=-1.0)
    world.run()
    assert refused.failed.code == "invalid_request"


def test_decoding_goes_on_while_a_prompt_is_tokenised() -> None:
    tokenised = threading.Event()
    world = EngineWorld()
    chatting = world.ask("chat", max_tokens=30)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(tokenised.wait, 10)
        world.engine.beginnings.tokenising = pool
        waiting = world.ask("a prompt that takes its time")
        world.run()
        assert chatting.done.counts.completion_tokens == 30
        assert not waiting.events
        tokenised.set()
    world.run()
    assert waiting.done.counts.completion_tokens == 20


def test_a_request_cancelled_while_it_is_tokenised_ends_at_once_and_only_once() -> None:
    tokenised = threading.Event()
    world = EngineWorld()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(tokenised.wait, 10)
        world.engine.beginnings.tokenising = pool
        waiting = world.ask("a prompt that takes its time", session="s")
        world.engine.cancel(waiting.key)
        world.step()
        assert waiting.done.reason == "cancelled"
        tokenised.set()
    world.run()
    assert len(waiting.events) == 1
