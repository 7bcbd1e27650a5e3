"""Who comes first: classes, slack to the audio deadline, aging; and what a long prompt costs the others."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from app.engine.messages import Delta, Message, Priority
from app.engine.rendering import Rendering
from app.engine.scheduler import Limits
from app.engine.urgency import AHEAD_S, SPEECH_S_PER_TOKEN
from tests.kit.engine_world import EngineWorld, Listener


def step_ms(rows: int, attended: int) -> float:
    return 6.0 + 0.4 * rows + 0.05 * attended / 1000.0


def busy_world(*, priority: Priority = "normal", spoken: bool = False) -> tuple[EngineWorld, list[Listener]]:
    """Four places, all taken by replies that have just begun to decode."""
    world = EngineWorld(max_running=4, step_ms=step_ms)
    running = [
        world.ask(f"long {number}", max_tokens=300, priority=priority, spoken=spoken, ignore_eos=True)
        for number in range(4)
    ]
    world.run_until(lambda: all(reply.tokens > 1 for reply in running))
    return world, running


def test_an_urgent_arrival_takes_the_place_of_a_low_one_which_finishes_later() -> None:
    world, running = busy_world(priority="low")
    urgent = world.ask("now", priority="vip", max_tokens=5)
    assert world.run_until(lambda: bool(urgent.events)) <= 3
    world.run()
    assert urgent.done.reason == "length"
    assert all(reply.done.counts.completion_tokens == 300 for reply in running)
    assert world.engine.figures().preemptions == 1


def test_a_reply_gives_up_its_place_only_once() -> None:
    world, running = busy_world(priority="low")
    for number in range(12):
        world.ask(f"normal {number}", max_tokens=60, ignore_eos=True)
        for _ in range(10):
            world.step()
    world.run()
    assert world.engine.figures().preemptions <= len(running)
    assert all(reply.done.reason == "length" for reply in running)


def test_who_gave_up_its_place_and_has_it_again_keeps_it() -> None:
    world = EngineWorld(max_running=1, step_ms=step_ms)
    low = world.ask("low", priority="low", max_tokens=200, ignore_eos=True)
    world.run_until(lambda: low.tokens > 5)
    first = world.ask("first", max_tokens=5)
    world.run_until(lambda: first.ended)
    before = low.tokens
    world.run_until(lambda: low.tokens > before)
    second = world.ask("second", max_tokens=5)
    world.run()
    assert world.engine.figures().preemptions == 1
    assert low.times_s[-1] < second.times_s[0]


def test_a_prompt_goes_on_by_a_cell_though_the_replies_take_every_row_of_a_step() -> None:
    world = EngineWorld(step_ms=step_ms)
    streams = [world.ask(f"stream {number}", max_tokens=300, ignore_eos=True) for number in range(8)]
    world.run_until(lambda: all(reply.tokens > 1 for reply in streams))
    world.engine.scheduler.limits = replace(world.engine.scheduler.limits, step_tokens=8)
    newcomer = world.ask("x" * 200, max_tokens=2)
    world.run_until(lambda: newcomer.ended)
    assert not any(reply.ended for reply in streams)


def test_replies_of_one_kind_do_not_take_turns_at_computing_again() -> None:
    world, running = busy_world()
    others = [world.ask(f"more {number}", max_tokens=300, ignore_eos=True) for number in range(4)]
    world.run()
    assert world.engine.figures().preemptions == 0
    assert all(reply.done.reason == "length" for reply in [*running, *others])


def test_an_admitted_vip_comes_before_those_who_waited_and_low_after_them() -> None:
    world, running = busy_world(priority="vip")
    low = world.ask("low", priority="low", max_tokens=5)
    normal = world.ask("normal", max_tokens=5)
    vip = world.ask("vip", priority="vip", max_tokens=5)
    world.run()
    first = [reply.times_s[0] for reply in (vip, normal, low)]
    assert first == sorted(first)
    assert max(reply.times_s[-1] for reply in running) < first[2] + 1.0


def test_who_waits_long_enough_comes_before_newcomers_of_a_higher_class() -> None:
    world, _ = busy_world(priority="vip")
    low = world.ask("low", priority="low", max_tokens=5)
    world.sleep(21.0)
    newcomers = [world.ask(f"normal {number}", max_tokens=5) for number in range(3)]
    world.run()
    assert low.times_s[0] <= min(reply.times_s[0] for reply in newcomers)


def test_a_turn_waiting_for_its_first_clause_takes_the_place_of_one_with_much_speech_ahead() -> None:
    world, running = busy_world(spoken=True)
    for _ in range(40):
        world.step()
    assert all(reply.tokens * SPEECH_S_PER_TOKEN > 2 * AHEAD_S for reply in running)
    caller = world.ask("hello?", spoken=True, max_tokens=12)
    assert world.run_until(lambda: bool(caller.events)) <= 3
    world.run()
    # Nobody who listens notices: the next token is there before the speech so far has been heard.
    for reply in running:
        tokens = 0
        for event, at in zip(reply.events, reply.times_s, strict=True):
            if isinstance(event, Delta):
                assert not tokens or at <= reply.times_s[0] + tokens * SPEECH_S_PER_TOKEN
                tokens += event.tokens


def test_a_turn_waiting_for_its_first_clause_keeps_its_blocks_when_the_pool_runs_short() -> None:
    world = EngineWorld(blocks=12, step_ms=step_ms)
    spoken = [world.ask(f"far ahead {number}", spoken=True, max_tokens=100, ignore_eos=True) for number in range(2)]
    world.run_until(lambda: all(reply.tokens > 60 for reply in spoken))
    caller = world.ask("a caller " * 10, spoken=True, max_tokens=60, ignore_eos=True)
    world.run_until(lambda: caller.ended)
    assert world.engine.figures().preemptions > 0
    assert caller.done.decode_ms < 60 * 3 * step_ms(3, 600), "it never had to wait for others"
    world.run()
    assert all(reply.done.reason == "length" for reply in spoken)


def test_an_urgent_prompt_is_computed_before_the_rest_of_a_long_one() -> None:
    world = EngineWorld(blocks=160, context=4000, step_ms=step_ms)
    long = world.ask("word " * 700, max_tokens=3)
    world.step()
    caller = world.ask("hello?", spoken=True, max_tokens=3)
    world.run()
    assert caller.times_s[-1] < long.times_s[0]


def test_replies_with_speech_ahead_leave_the_step_to_a_caller_who_waits() -> None:
    world = EngineWorld(blocks=300, context=4000, step_ms=step_ms)
    world.ask("something long to know the machine by " * 50, max_tokens=1)
    world.run()
    talking = [world.ask(f"talk {number}", spoken=True, max_tokens=400, ignore_eos=True) for number in range(8)]
    world.run_until(lambda: all(reply.tokens > 40 for reply in talking))
    before = sum(reply.tokens for reply in talking)
    caller = world.ask("word " * 300, spoken=True, max_tokens=1)
    steps = world.run_until(lambda: bool(caller.events))
    assert sum(reply.tokens for reply in talking) - before < len(talking) * steps / 2


def test_rows_with_speech_ahead_wait_when_all_together_take_too_long() -> None:
    world = EngineWorld(blocks=300, max_running=32, step_ms=lambda rows, attended: 5.0 + 8.0 * rows)
    everybody = [world.ask(f"talk {number}", spoken=True, max_tokens=120, ignore_eos=True) for number in range(24)]
    world.run_until(lambda: all(reply.tokens > 60 for reply in everybody))
    before = world.engine.figures()
    for _ in range(50):
        world.step()
    after = world.engine.figures()
    rows = (after.step_rows.total - before.step_rows.total) / 50
    assert rows < 14, "as many as fit the budget, not all"
    budget_ms = Limits(1, 1).shared_step_ms
    assert (after.step_ms.total - before.step_ms.total) / 50 < 1.3 * budget_ms
    world.run()
    assert all(reply.done.counts.completion_tokens == 120 for reply in everybody)


def test_a_reply_that_is_held_back_says_every_second_that_it_goes_on() -> None:
    world, running = busy_world(priority="low")
    for number in range(4):
        world.ask(f"vip {number}", priority="vip", max_tokens=400, ignore_eos=True)
    world.run_until(lambda: world.engine.figures().preemptions == 4)
    world.run()
    for reply in running:
        gaps = [late - early for early, late in zip(reply.times_s, reply.times_s[1:], strict=False)]
        assert max(gaps) < 1.1
        assert any(isinstance(event, Delta) and not event.tokens for event in reply.events)
        assert reply.tokens == 300


def test_eight_streams_wait_no_longer_than_two_budgets_while_a_long_prompt_arrives() -> None:
    world = EngineWorld(blocks=400, context=5000, step_ms=step_ms)
    streams = [world.ask(f"stream {number}", max_tokens=500, ignore_eos=True) for number in range(8)]
    world.run_until(lambda: all(reply.tokens > 5 for reply in streams))
    long = world.ask("x" * 4000, max_tokens=2)
    world.run()
    budget_s = Limits(1, 1).shared_step_ms / 1000.0
    assert long.done.counts.prompt_tokens > 4000
    for reply in streams:
        assert max(late - early for early, late in zip(reply.times_s, reply.times_s[1:], strict=False)) < 2 * budget_s
    # ...and the prompt has what the streams leave of the steps.
    assert long.done.prefill_ms < 2 * sum(step_ms(512, 512 * start) for start in range(0, 4096, 128))


def test_the_first_long_prompt_of_a_slow_machine_does_not_stall_the_streams_either() -> None:
    world = EngineWorld(blocks=400, context=5000, step_ms=lambda rows, attended: 4 * step_ms(rows, attended))
    streams = [world.ask(f"stream {number}", max_tokens=300, ignore_eos=True) for number in range(8)]
    world.run_until(lambda: all(reply.tokens > 5 for reply in streams))
    world.ask("x" * 4000, max_tokens=2)
    world.run()
    gaps = [b - a for reply in streams for a, b in zip(reply.times_s, reply.times_s[1:], strict=False)]
    assert max(gaps) < 2.5 * Limits(1, 1).shared_step_ms / 1000.0


def test_prompts_are_tokenised_in_the_order_of_their_urgency() -> None:
    released = threading.Event()
    world = EngineWorld(max_running=1, step_ms=step_ms)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(released.wait, 10)
        world.engine.beginnings.tokenising = pool
        order: list[str] = []
        render = world.engine.beginnings._prompts.render

        def noting(messages: Sequence[Message], tools: str = "") -> Rendering:
            order.append(messages[0].content)
            return render(messages, tools)

        world.engine.beginnings._prompts.render = noting  # type: ignore[method-assign]
        world.ask("draft", session="s", only_prefill=True)
        world.ask("low", priority="low")
        world.ask("normal")
        world.ask("spoken", spoken=True)
        world.ask("vip", priority="vip")
        released.set()
    world.run()
    assert order == ["vip", "spoken", "normal", "low", "draft"]
