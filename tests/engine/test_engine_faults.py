"""What goes wrong: deadlines, cancels in the middle of a step, steps that fail, books that do not balance."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.engine.messages import Delta, SamplingSpec
from app.engine.sequence import Chunk, Draw
from tests.kit.engine_world import BLOCK_TOKENS, EngineWorld, Listener


def hundred_ms(rows: int, attended: int) -> float:
    return 100.0


def test_a_reply_that_is_not_finished_by_its_deadline_ends_there_and_its_session_keeps_it() -> None:
    world = EngineWorld(step_ms=hundred_ms)
    late = world.ask("hello", session="s", deadline_s=1.0, max_tokens=100)
    other = world.ask("hello", max_tokens=20)
    world.run()
    assert late.failed.code == "stage_timeout"
    assert "deadline of 1 s" in late.failed.message
    assert 5 < late.tokens <= 10
    assert other.done.reason == "length"
    follow = world.ask("hello", late.text, "and", session="s")
    world.run()
    assert follow.done.counts.cached_tokens >= 15
    assert world.engine.figures().timed_out == 1


def test_a_deadline_passes_in_the_queue_too() -> None:
    world = EngineWorld(max_running=1, step_ms=hundred_ms)
    first = world.ask("first", max_tokens=50)
    queued = world.ask("queued", deadline_s=0.5)
    in_time = world.ask("in time", deadline_s=60.0)
    world.run()
    assert queued.failed.code == "stage_timeout"
    assert queued.times_s[-1] - 1000.0 < 0.8
    assert first.done.reason == in_time.done.reason == "length"


def test_a_deadline_passes_while_the_prompt_is_tokenised_though_the_engine_has_nothing_to_do() -> None:
    tokenised = threading.Event()
    world = EngineWorld()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(tokenised.wait, 30)
        world.engine.beginnings.tokenising = pool
        engine = threading.Thread(target=world.engine.run)
        engine.start()
        try:
            waiting = world.ask("a prompt that takes its time", deadline_s=0.1)
            until = time.monotonic() + 20.0
            while not waiting.ended and time.monotonic() < until:
                time.sleep(0.01)
            assert waiting.failed.code == "stage_timeout"
        finally:
            world.engine.stop()
            tokenised.set()
            engine.join(10.0)
    assert len(waiting.events) == 1


def test_an_idle_engine_sleeps_and_wakes_for_a_command() -> None:
    world = EngineWorld()
    looks = 0
    plan = world.engine.scheduler.plan

    def counting(now_s: float) -> list[Chunk]:
        nonlocal looks
        looks += 1
        return plan(now_s)

    world.engine.scheduler.plan = counting  # type: ignore[method-assign]
    engine = threading.Thread(target=world.engine.run)
    engine.start()
    try:
        for _ in range(2):
            reply = world.ask("hello")
            until = time.monotonic() + 20.0
            while not reply.ended and time.monotonic() < until:
                time.sleep(0.01)
            assert reply.done.reason == "length"
            time.sleep(0.05)
            before = looks
            time.sleep(0.3)
            assert looks == before
    finally:
        world.engine.stop()
        engine.join(10.0)


@pytest.mark.parametrize("steps", [0, 1, 30])
def test_a_cancel_frees_its_blocks_within_one_step(steps: int) -> None:
    world = EngineWorld(blocks=200, context=4000, step_ms=hundred_ms)
    world.ask("stays", max_tokens=200)
    world.run_until(lambda: world.engine.figures().decode_tokens > 3)
    held = world.pool.held
    reply = world.ask("word " * 500, max_tokens=50)
    for _ in range(steps):
        world.step()
    world.engine.cancel(reply.key)
    world.step()
    assert reply.done.reason == "cancelled"
    assert world.pool.held <= held + 1


def test_a_cancel_in_the_middle_of_a_step_frees_nothing_that_the_step_still_uses() -> None:
    world = EngineWorld(blocks=24, context=600)
    doomed: list[Listener] = []
    world.model.in_between = lambda: [world.engine.cancel(reply.key) for reply in doomed] and None
    spared = []
    for number in range(30):
        reply = world.ask(f"question {number} " * (number % 4 + 1), max_tokens=40)
        (doomed if number % 2 else spared).append(reply)
        for _ in range(3):
            world.step()
    world.run()
    assert {reply.done.reason for reply in doomed} == {"cancelled"}
    assert {reply.done.reason for reply in spared} == {"length"}
    assert world.pool.held == 0


def test_those_who_hang_up_change_nothing_for_the_others() -> None:
    prompts = [f"question {number} " * 20 for number in range(7)]
    alone = []
    for prompt in prompts:
        world = EngineWorld()
        reply = world.ask(prompt)
        world.run()
        alone.append(reply.text)
    world = EngineWorld(blocks=256, context=4000)
    leaves_in_prefill = world.ask("x" * 3000)
    leaves_in_decode = world.ask("gone in a moment", max_tokens=100)
    others = [world.ask(prompt) for prompt in prompts]
    world.step()
    world.engine.cancel(leaves_in_prefill.key)
    world.run_until(lambda: leaves_in_decode.tokens > 3)
    world.engine.cancel(leaves_in_decode.key)
    world.run()
    assert [reply.text for reply in others] == alone


def test_preemption_changes_no_delta() -> None:
    def deltas(blocks: int) -> tuple[list[list[Delta]], int]:
        world = EngineWorld(blocks=blocks, context=600, max_running=8)
        replies = [world.ask(f"tell me about {number}", max_tokens=90, ignore_eos=True) for number in range(8)]
        world.run()
        events = [[event for event in reply.events if isinstance(event, Delta)] for reply in replies]
        return events, world.engine.figures().preemptions

    roomy, none = deltas(64)
    short, some = deltas(18)
    assert not none
    assert some > 3
    assert short == roomy


def test_computing_again_is_not_counted_as_a_cache_hit() -> None:
    world = EngineWorld(blocks=10, context=320, max_running=4)
    replies = [world.ask(f"{number} tell me about it", max_tokens=90, ignore_eos=True) for number in range(4)]
    world.run()
    figures = world.engine.figures()
    assert figures.preemptions > 0
    assert all(reply.done.counts.cached_tokens == 0 for reply in replies)
    assert figures.cached_tokens == 0
    prompts = sum(reply.done.counts.prompt_tokens for reply in replies)
    assert figures.prompt_tokens == prompts
    # Every prompt and every drawn token but the last of each reply ran once, and some ran again.
    ran_once = prompts + sum(reply.done.counts.completion_tokens - 1 for reply in replies)
    assert figures.recomputed_tokens > 0
    assert figures.prefill_tokens + figures.decode_tokens == ran_once + figures.recomputed_tokens


def test_what_is_taken_up_while_computing_again_is_no_cache_hit_either() -> None:
    world = EngineWorld(blocks=128, max_running=2, step_ms=lambda rows, attended: 5.0 + 4.0 * rows)
    text = "a long story that is told twice " * 12
    again = world.ask(text, priority="low", max_tokens=40, ignore_eos=True)
    world.run_until(lambda: again.tokens > 3)
    urgent = [world.ask(f"now {number}", priority="vip", max_tokens=3) for number in range(2)]
    world.run_until(lambda: world.engine.figures().preemptions == 1)
    (sequence,) = world.engine.scheduler.waiting
    world.pool.drop_cached()
    world.run_until(lambda: any(reply.ended for reply in urgent))
    world.run_until(lambda: sequence.computed >= BLOCK_TOKENS)
    assert sequence.pending > 5 * BLOCK_TOKENS
    # One that is more urgent overtakes it in the same text, and it takes up what that one computes.
    world.ask(text, priority="vip", max_tokens=3)
    world.run()
    assert world.engine.figures().recomputed_tokens < again.done.counts.prompt_tokens - 2 * BLOCK_TOKENS
    assert again.done.counts.cached_tokens == 0


def test_books_that_do_not_balance_after_a_failed_step_are_opened_anew_and_everybody_is_told() -> None:
    world = EngineWorld()
    bad = world.ask("poison", max_tokens=30)
    good = [world.ask(f"fine {number}", session=f"s{number}", max_tokens=30) for number in range(3)]
    world.step()
    corrupted = False

    def poison(chunk: Chunk) -> bool:
        nonlocal corrupted
        if chunk.sequence.key == bad.key and not corrupted:
            corrupted = True
            world.pool.allocate(1)  # a block that nobody will ever give back
        return chunk.sequence.key == bad.key

    world.model.poison = poison
    assert world.engine._safe_step()
    assert bad.failed.code == "stage_failed"
    assert all(reply.failed.code == "stage_failed" for reply in good)
    assert world.engine.figures().resets == 1
    assert world.pool.free == world.pool.total
    world.model.poison = lambda chunk: False
    again = world.ask("fine 0", session="s0")
    alone = EngineWorld()
    expected = alone.ask("fine 0")
    world.run()
    alone.run()
    assert again.text == expected.text


def test_a_fault_in_the_engine_itself_does_not_end_its_thread() -> None:
    world = EngineWorld()
    plan = world.engine.scheduler.plan
    faults = iter([KeyError("a fault of ours")])

    def faulty(now_s: float) -> list[Chunk]:
        if world.engine.scheduler.waiting and (fault := next(faults, None)):
            raise fault
        return plan(now_s)

    world.engine.scheduler.plan = faulty  # type: ignore[method-assign]
    engine = threading.Thread(target=world.engine.run)
    engine.start()
    try:
        replies = [world.ask("hello", session="s"), world.ask("hello", session="s")]
        until = time.monotonic() + 20.0
        while not all(reply.ended for reply in replies) and time.monotonic() < until:
            time.sleep(0.01)
        after = world.ask("hello", session="s")
        while not after.ended and time.monotonic() < until:
            time.sleep(0.01)
        assert after.done.reason == "length"
        assert all(reply.ended for reply in replies)
    finally:
        world.engine.stop()
        engine.join(10.0)
    assert world.engine.figures().resets == 1


def test_a_draw_that_failed_loses_only_its_own_request() -> None:
    world = EngineWorld()
    bad = world.ask("nothing can be drawn", session="s")
    good = world.ask("fine")
    step = world.model.step

    def faulty(chunks: Sequence[Chunk]) -> list[Draw]:
        sampling = [chunk for chunk in chunks if chunk.samples]
        return [
            Draw(0, fault="no token may follow") if chunk.sequence.key == bad.key else draw
            for chunk, draw in zip(sampling, step(chunks), strict=True)
        ]

    world.model.step = faulty  # type: ignore[method-assign]
    world.run()
    assert bad.failed.message == "no token may follow"
    assert good.done.reason == "length"
    assert world.pool.held == 0


def test_what_a_failed_draw_computed_is_nobodys_prefix() -> None:
    world = EngineWorld()
    prompt = "a prompt of more than one block, whose keys and values cannot be trusted"
    sound = world.model.step
    world.model.step = lambda chunks: [Draw(0, fault="not a number") for _ in sound(chunks)]  # type: ignore[method-assign]
    bad = world.ask(prompt)
    world.run()
    assert bad.failed.message == "not a number"
    world.model.step = sound  # type: ignore[method-assign]
    good = world.ask(prompt)
    world.run()
    assert good.done.counts.cached_tokens == 0


def test_log_probabilities_come_with_every_token_even_where_no_text_does() -> None:
    world = EngineWorld()
    step = world.model.step
    letter = world.tokenizer.token_to_id("a")

    def telling(chunks: Sequence[Chunk]) -> list[Draw]:
        return [Draw(draw.token, -0.5, ((draw.token, -0.5), (letter, -2.0))) for draw in step(chunks)]

    world.model.step = telling  # type: ignore[method-assign]
    plain = world.ask("hello", max_tokens=12)
    world.run()
    held_back = world.ask("hello", max_tokens=12, stop=(plain.text[3:7] + "#",))
    world.run()
    for reply in (plain, held_back):
        deltas = [event for event in reply.events if isinstance(event, Delta)]
        entries = [entry for delta in deltas for entry in delta.logprobs]
        assert len(entries) == 12
        assert "".join(entry.token for entry in entries) == reply.text
        own = [(entry.token, entry.token.encode(), -0.5) for entry in entries]
        assert [entry.top for entry in entries] == [(one, ("a", b"a", -2.0)) for one in own]
        assert sum(delta.tokens for delta in deltas) == 12
    assert any(isinstance(event, Delta) and not event.text for event in held_back.events)


def test_a_delta_counts_the_tokens_that_were_held_back_for_it() -> None:
    probe = EngineWorld()
    full = probe.ask("tell", max_tokens=12)
    probe.run()
    world = EngineWorld()
    reply = world.ask("tell", max_tokens=12, stop=(full.text[4:8] + "#",))
    world.run()
    assert reply.text == full.text
    assert reply.tokens == 12
    assert max(event.tokens for event in reply.events if isinstance(event, Delta)) == 5


def test_a_full_queue_says_when_half_of_it_will_be_answered() -> None:
    world = EngineWorld(max_running=2, max_waiting=10, step_ms=hundred_ms)
    replies = [world.ask("hello", max_tokens=50) for _ in range(12)]
    world.run_until(lambda: sum(reply.ended for reply in replies) == 6)
    replies = [world.ask("hello", max_tokens=50) for _ in range(6)]
    refused = world.ask("one too many")
    world.step()
    assert 4.0 < refused.failed.retry_after_s < 20.0  # five seconds for each two of ten
    assert world.engine.figures().refused == 1


@pytest.mark.parametrize(
    "sampling",
    [
        {"max_tokens": 0},
        {"temperature": math.nan},
        {"temperature": -1.0},
        {"top_p": -0.1},
        {"top_p": math.nan},
        {"min_p": 1.5},
        {"presence_penalty": 3.0},
        {"frequency_penalty": math.nan},
        {"repetition_penalty": math.inf},
        {"logprobs": 21},
        {"logit_bias": {-1: 1.0}},
        {"logit_bias": {1 << 20: 1.0}},
        {"logit_bias": {5: 101.0}},
        {"stop": tuple("x" * 65)},
        {"json_schema": "{}"},
    ],
)
def test_what_is_out_of_range_is_refused_by_its_name(sampling: dict[str, object]) -> None:
    world = EngineWorld()
    refused = world.ask("hi", **sampling)
    world.run()
    assert refused.failed.code == "invalid_request"
    assert next(iter(sampling)) in refused.failed.message
    assert refused.failed.param == next(iter(sampling))


def test_the_figures_tell_what_happened() -> None:
    world = EngineWorld(step_ms=hundred_ms)
    replies = [world.ask(f"question {number}", max_tokens=10) for number in range(4)]
    world.run()
    figures = world.engine.figures()
    assert sum(figures.ttft_ms.counts) == sum(figures.queue_ms.counts) == 4
    assert sum(figures.inter_token_ms.counts) == 4 * 9
    assert figures.inter_token_ms.total == pytest.approx(4 * 9 * 100.0)
    assert sum(figures.step_rows.counts) == sum(figures.step_ms.counts) == figures.steps
    assert figures.step_rows.total >= 40
    assert figures.step_ms.total == pytest.approx(100.0 * figures.steps)
    for spread in (figures.step_ms, figures.step_rows, figures.ttft_ms):
        assert len(spread.counts) == len(spread.bounds) + 1
    assert figures.decode_tokens == 36
    assert figures.prefill_tokens == sum(reply.done.counts.prompt_tokens for reply in replies)


def test_a_reply_is_ended_when_its_constraint_is_satisfied() -> None:
    class ThreeLetters:
        def allowed(self, reply: Sequence[int]) -> bytes:
            return b"\xff" * 64

        def is_finished(self, reply: Sequence[int]) -> bool:
            return len(reply) == 3

    world = EngineWorld()
    world.engine.beginnings._constrain = lambda schema: ThreeLetters()
    reply = world.ask("hello", json_schema="{}")
    world.run()
    assert reply.done.reason == "stop"
    assert reply.done.counts.completion_tokens == 3
    assert SamplingSpec().json_schema is None
