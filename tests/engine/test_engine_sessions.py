"""What a session keeps between turns: truncation, drafts ahead of a turn, pins, tenants."""

from __future__ import annotations

import pytest

from app.engine.messages import Message, SamplingSpec, Submit
from tests.kit.engine_world import BLOCK_TOKENS, EngineWorld, Listener


def afresh(*turns: str) -> str:
    """What a world without any past says."""
    world = EngineWorld()
    reply = world.ask(*turns)
    world.run()
    return reply.text


def test_a_truncated_reply_costs_the_next_turn_only_what_is_new() -> None:
    world = EngineWorld()
    reply = world.ask("tell me a story", session="s", max_tokens=100)
    world.run()
    held = world.pool.held
    world.engine.truncate("s", 20)
    world.run()
    assert world.pool.held < held, "the unheard part's blocks are free"
    heard = reply.text[:20]
    follow = world.ask("tell me a story", heard, "stop", session="s")
    world.run()
    assert follow.text == afresh("tell me a story", heard, "stop")
    assert follow.done.counts.cached_tokens >= reply.done.counts.prompt_tokens + 20 - 4  # a cut inside a word backs off


def test_truncating_a_reply_that_is_being_made_ends_it_first() -> None:
    world = EngineWorld()
    reply = world.ask("tell me a story", session="s", max_tokens=200)
    world.run_until(lambda: reply.tokens >= 50)
    world.engine.truncate("s", 10)
    world.step()
    assert reply.done.reason == "cancelled"
    assert len(world.engine.sessions.ledger(("", "s")).ids) == reply.done.counts.prompt_tokens + 10
    assert world.pool.held == world.pool.needed(reply.done.counts.prompt_tokens + 10)


def test_a_truncation_that_comes_with_the_next_turn_does_not_end_that_turn() -> None:
    world = EngineWorld()
    reply = world.ask("tell me a story", session="s", max_tokens=60)
    world.run()
    world.engine.truncate("s", 10)
    follow = world.ask("tell me a story", reply.text[:10], "stop", session="s")
    world.run()
    assert follow.done.reason == "length"
    assert follow.text == afresh("tell me a story", reply.text[:10], "stop")


@pytest.mark.parametrize("heard", [-5, 0, 1, 59, 60, 1000])
def test_any_number_of_heard_tokens_leaves_a_session_that_goes_on(heard: int) -> None:
    world = EngineWorld()
    reply = world.ask("tell me a story", session="s", max_tokens=60)
    world.run()
    world.engine.truncate("s", heard)
    world.engine.truncate("unknown", heard)
    world.run()
    kept = len(world.engine.sessions.ledger(("", "s")).ids) - reply.done.counts.prompt_tokens
    assert kept == max(0, min(heard, 60))
    said = reply.text[: max(1, kept)]
    follow = world.ask("tell me a story", said, "and", session="s")
    world.run()
    assert follow.text == afresh("tell me a story", said, "and")


def new_tokens(listener: Listener) -> int:
    counts = listener.done.counts
    return counts.prompt_tokens - counts.cached_tokens


def test_a_draft_is_computed_ahead_and_the_turn_adds_only_its_end() -> None:
    world = EngineWorld()
    said = "could you please tell me about the mountains of the north"
    draft = world.ask(said, session="s", only_prefill=True)
    world.run()
    assert draft.done.reason == "length"
    assert draft.done.counts.completion_tokens == 0
    turn = world.ask(said + " of Norway", session="s")
    world.run()
    closing = len("\n") + 1 + 1 + len("assistant\n")  # <|im_end|>, newline, <|im_start|>, assistant, newline
    assert new_tokens(turn) <= len(" of Norway") + closing + 4 + 1  # back-off inside a word; the last token again
    assert turn.text == afresh(said + " of Norway")


def test_a_changed_tail_costs_only_the_changed_tokens() -> None:
    world = EngineWorld()
    beginning = "I would like to book a table for two at the restaurant on the corner "
    for tail in ("to", "tonight at ate", "tonight at eight", "tonight, at eight"):
        draft = world.ask(beginning + tail, session="s", only_prefill=True)
        world.run()
    assert new_tokens(draft) <= len(", at eight") + 8
    turn = world.ask(beginning + "tomorrow", session="s")
    world.run()
    assert new_tokens(turn) <= len("tomorrow") + 13 + 8
    assert turn.text == afresh(beginning + "tomorrow")
    assert world.engine.figures().draft_tokens > len(beginning)


def test_a_draft_in_progress_gives_way_to_the_turn_which_takes_up_what_is_computed() -> None:
    world = EngineWorld(blocks=200, context=4000, step_ms=lambda rows, attended: 5.0 + rows)
    said = "a very long monologue " * 100
    draft = world.ask(said, session="s", only_prefill=True)
    for _ in range(6):
        world.step()
    assert not draft.ended
    turn = world.ask(said + "indeed", session="s")
    world.step()
    assert draft.done.reason == "cancelled"
    world.run()
    assert turn.done.reason == "length"
    assert turn.done.counts.cached_tokens > 200
    assert turn.done.queue_ms < 100


def test_a_draft_ends_no_reply_but_waits_for_it() -> None:
    world = EngineWorld()
    reply = world.ask("tell me a story", session="s", max_tokens=60)
    world.run_until(lambda: reply.tokens > 5)
    draft = world.ask("tell me a story", "Once", "hm", session="s", only_prefill=True)
    world.run()
    assert reply.done.reason == "length"
    assert draft.done.reason == "length"
    turn = world.ask("tell me a story", reply.text, "hm, go on", session="s")
    world.run()
    assert turn.text == afresh("tell me a story", reply.text, "hm, go on")


def test_a_draft_needs_a_session() -> None:
    world = EngineWorld()
    refused = world.ask("hello", only_prefill=True)
    world.run()
    assert refused.failed.code == "invalid_request"


def test_a_draft_leaves_room_in_its_steps_for_whoever_comes() -> None:
    world = EngineWorld(blocks=200, context=4000, step_ms=lambda rows, attended: 5.0 + rows)
    world.ask("x" * 2000, session="s", only_prefill=True)
    longest = 0.0
    while world.step():
        longest = max(longest, world.engine.figures().last_step_ms)
    assert longest < 1.5 * world.engine.scheduler.limits.shared_step_ms


def test_sessions_lose_their_pins_with_age_and_younger_ones_keep_theirs() -> None:
    world = EngineWorld(session_ttl_s=60.0, step_ms=lambda rows, attended: 1.0)
    old = world.ask("the older one " * 5, session="old")
    world.run()
    world.sleep(50.0)
    world.ask("the younger one " * 5, session="young")
    world.run()
    held = world.pool.held
    world.sleep(20.0)
    world.ask("anybody")
    world.run()
    assert world.engine.figures().session_evictions == 1
    assert 0 < world.pool.held < held
    # Its ledger is still there, and what it computed can be found as long as nobody needed the room.
    again = world.ask("the older one " * 5, old.text, "and", session="old")
    world.run()
    assert again.done.counts.cached_tokens >= 2 * BLOCK_TOKENS
    assert again.text == afresh("the older one " * 5, old.text, "and")


def test_one_session_more_than_there_is_room_for_does_not_push_all_out_in_turn() -> None:
    preamble = "You are a friendly voice on a telephone line and keep every answer short. " * 3
    world = EngineWorld(blocks=22, context=600)
    histories: dict[str, list[str]] = {f"s{number}": [] for number in range(5)}
    for turn in range(4):
        for session, history in histories.items():
            history.append(f"{preamble}{session}" if turn == 0 else f"question {turn}")
            reply = world.ask(*history, session=session, max_tokens=8)
            world.run()
            history.append(reply.text)
    figures = world.engine.figures()
    assert figures.session_evictions > 0, "one did not fit"
    assert figures.cached_tokens / figures.prompt_tokens > 0.6


def test_the_same_session_name_of_another_tenant_is_another_session() -> None:
    world = EngineWorld()
    secret = "the code of the safe is 4711 and nobody else may know it, nobody at all"
    mine = world.ask(secret, session="s", salt="me", max_tokens=40)
    world.run()
    theirs = world.ask(secret, session="s", salt="them", max_tokens=40)
    world.run()
    assert theirs.done.counts.cached_tokens == 0, "not even the time it takes tells what others said"
    assert len(world.engine.sessions) == 2
    again = world.ask(secret, mine.text, "and", session="s", salt="me")
    world.run()
    assert again.done.counts.cached_tokens >= mine.done.counts.prompt_tokens
    world.engine.end_session("s", "them")
    world.engine.truncate("s", 0, "them")
    world.run()
    assert world.engine.sessions.ledger(("me", "s")).ids


def test_a_tenant_finds_its_own_prefixes_and_not_those_of_nobody_in_particular() -> None:
    world = EngineWorld()
    prompt = "a prompt that is longer than one block, so that it could be shared"
    cached = []
    for salt in ("", "me", "me"):
        reply = world.ask(prompt, salt=salt)
        world.run()
        cached.append(reply.done.counts.cached_tokens)
    assert cached[:2] == [0, 0]
    assert cached[2] >= BLOCK_TOKENS


def test_tenants_with_long_names_that_begin_alike_share_nothing() -> None:
    world = EngineWorld()
    prompt = "a prompt that is longer than one block, so that it could be shared"
    world.ask(prompt, salt="x" * 64 + "a")
    world.run()
    other = world.ask(prompt, salt="x" * 64 + "b")
    world.run()
    assert other.done.counts.cached_tokens == 0


def test_newcomers_with_one_preamble_compute_it_once_even_when_they_come_together() -> None:
    world = EngineWorld(blocks=128)
    preamble = "a long preamble that everybody shares " * 5
    replies = [world.ask(f"{preamble}{number}") for number in range(8)]
    world.run()
    shared = len(preamble) // BLOCK_TOKENS * BLOCK_TOKENS
    assert sum(new_tokens(reply) for reply in replies) < shared + 8 * (2 * BLOCK_TOKENS + 20)
    assert world.engine.figures().prefill_tokens < shared + 8 * (2 * BLOCK_TOKENS + 20)


def test_ledgers_are_forgotten_when_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.sessions.MAX_LEDGER_TOKENS", 300)
    world = EngineWorld()
    for number in range(10):
        world.ask(f"what is {number}", session=f"s{number}", max_tokens=40)
        world.run()
    assert 1 < len(world.engine.sessions) < 5
    assert not world.engine.sessions.ledger(("", "s0")).ids
    assert world.engine.sessions.ledger(("", "s9")).ids


def test_a_plain_prompt_can_be_drafted_too() -> None:
    world = EngineWorld()
    text = "Once upon a time there was a king who had three daughters"
    for only_prefill in (True, False):
        listener = Listener()
        spec = SamplingSpec(max_tokens=10)
        submit = Submit(1, (), spec, "s", prompt=text if only_prefill else f"{text} and", only_prefill=only_prefill)
        world.engine.submit(submit, listener)
        world.run()
    assert new_tokens(listener) <= len(" and") + 5


def test_an_empty_draft_is_refused_by_itself() -> None:
    world = EngineWorld()
    listener = Listener()
    world.engine.submit(Submit(1, (), session="s", only_prefill=True), listener)
    other = world.ask("hello")
    world.run()
    assert listener.failed.code == "invalid_request"
    assert other.done.reason == "length"


def test_the_conversation_of_a_draft_may_end_with_the_assistant() -> None:
    world = EngineWorld()
    listener = Listener()
    messages = (Message("user", "hello"), Message("assistant", "hi there, how can I help you today"))
    world.engine.submit(Submit(1, messages, session="s", only_prefill=True), listener)
    world.run()
    assert listener.done.counts.prompt_tokens > 40
