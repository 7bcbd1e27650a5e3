"""Whatever happens in whatever order: history is what was heard, nothing is stuck, nothing is doubled."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.dialogue import events as ev
from app.dialogue.state import conversation
from tests.kit.machine_world import WORD_SAMPLES, World

Action = Callable[[World, int], None]

_TEXTS = ["yes", "stop", "tell me more", "hello?", "", "", None, "mm-hm", "go on", "and the", "one two"]
_HALF_SAID = ["mm", "no", "", "tell me", "tell me more", "one two"]


def whole_turn(world: World, number: int) -> None:
    """The user says something and stops; with a quick recogniser and a sure turn model."""
    world.start_speech()
    world.advance(0.3)
    world.stop_speech()
    world.advance(0.06)  # the turn model is asked
    world.recognise(-1, "tell me more")
    world.judge(-1, 1.0)


def fluent_reply(world: World, number: int) -> None:
    """Some words are written, sounded and mostly played."""
    for _ in range(1 + number % 4):
        world.write_word(0, stale=False)
        world.sound_word(0, stale=False)
    world.play(number * 1500)


def whole_reply(world: World, number: int) -> None:
    fluent_reply(world, number)
    world.end_text(0, stale=False)
    world.end_sound(0, stale=False)
    world.play(10 * WORD_SAMPLES)


ACTIONS: list[Action] = [
    lambda w, n: w.start_speech(),
    lambda w, n: w.stop_speech(),
    lambda w, n: w.stop_speech(),
    lambda w, n: w.recognise(n, _TEXTS[n % len(_TEXTS)]),
    lambda w, n: w.recognise(0, _TEXTS[n % len(_TEXTS)]),
    lambda w, n: w.judge(n, (n % 5) / 4),
    lambda w, n: w.preview(n, _HALF_SAID[n % len(_HALF_SAID)]),
    lambda w, n: w.preview(-1, _HALF_SAID[n % len(_HALF_SAID)]),
    lambda w, n: w.seem_to_speak(),
    whole_turn,
    whole_turn,
    fluent_reply,
    fluent_reply,
    fluent_reply,
    whole_reply,
    lambda w, n: w.write_word(n, stale=n % 7 == 0),
    lambda w, n: w.sound_word(n, stale=n % 7 == 0),
    lambda w, n: w.end_text(n, stale=n % 7 == 0),
    lambda w, n: w.end_sound(n, stale=n % 7 == 0),
    lambda w, n: w.fail(n, "llm" if n % 2 else "tts", stale=n % 3 == 0),
    lambda w, n: w.play(960),
    lambda w, n: w.play(n * 700),
    lambda w, n: w.play(WORD_SAMPLES),
    lambda w, n: w.advance(0.02),
    lambda w, n: w.advance(n / 30),
    lambda w, n: w.advance(13.0) if n % 6 == 0 else None,  # long enough to close a segment
    lambda w, n: w.post(ev.StopRequested()) if n % 4 == 0 else None,
    lambda w, n: w.post(ev.TypedText("typed words")) if n % 3 == 0 else None,
    lambda w, n: w.post(ev.AnswerRequested((None, True, False)[n % 4 % 3])) if n % 3 == 0 else None,
    lambda w, n: w.post(ev.Committed()) if w.state.manual or n % 5 == 0 else None,
    lambda w, n: w.post(ev.Configured("Be kind.", manual=n == 10, spoken=n != 20)) if n % 5 == 0 else None,
    lambda w, n: w.post(ev.Left(w.sample)) if n % 6 == 0 else None,
    lambda w, n: w.come_back(n) if w.state.left or n % 5 == 0 else None,
]

steps = st.lists(st.tuples(st.integers(0, len(ACTIONS) - 1), st.integers(0, 30)), max_size=120)


def run(steps: list[tuple[int, int]]) -> World:
    world = World()
    world.advance(0.0)
    for action, number in steps:
        ACTIONS[action](world, number)
        world.check()
    return world


@settings(max_examples=400, deadline=None)
@given(steps)
def test_history_equals_what_was_heard_after_every_event_of_every_ordering(steps: list[tuple[int, int]]) -> None:
    run(steps)


@pytest.mark.parametrize("seed", range(16))
def test_long_random_conversations_keep_every_rule_and_end_well(seed: int) -> None:
    """Deeper than Hypothesis goes by itself: 1,500 events each."""
    random = Random(seed)
    world = run([(random.randrange(len(ACTIONS)), random.randrange(31)) for _ in range(1500)])
    assert sum(item.role == "assistant" for item in conversation(world.state)) > 5, "the conversation went somewhere"
    world.settle()
    assert world.state.phase == "listening"


@settings(max_examples=200, deadline=None)
@given(steps)
def test_there_is_always_a_way_back_to_listening_even_if_every_stage_is_dead(steps: list[tuple[int, int]]) -> None:
    world = run(steps)
    world.settle()
    assert world.state.phase == "listening"


@settings(max_examples=200, deadline=None)
@given(steps, st.integers(0, 30))
def test_nothing_of_an_older_reply_is_told_once_a_newer_one_exists(steps: list[tuple[int, int]], pick: int) -> None:
    world = run(steps)
    if world.state.reply is None:
        return
    older = [generation for generation in world.replies if generation < world.state.generation]
    if not older:
        return
    generation = older[pick % len(older)]
    before, told = world.state, len(world.told)
    for event in (
        ev.ReplyText(generation, "ghost"),
        ev.ClauseSound(generation, 0, ((5, 5),), 5, True),
        ev.ReplySoundEnded(generation, 5),
        ev.Played(generation, 5),
        ev.ReplyFailed(generation, "llm", "stage_failed", "ghost"),
        ev.ReplyTextEnded(generation, None),
    ):
        world.post(event)
    assert world.state == before
    assert len(world.told) == told


@settings(max_examples=200, deadline=None)
@given(steps)
def test_each_utterance_becomes_at_most_one_user_item_and_every_prompt_alternates(steps: list[tuple[int, int]]) -> None:
    world = run(steps)
    completed = [
        tell.fields["item_id"]
        for tell in world.told
        if tell.type == "conversation.item.input_audio_transcription.completed"
    ]
    users = {item.id for item in conversation(world.state) if item.role == "user"}
    assert users <= set(completed)
    for messages in world.prompts:
        roles = [message.role for message in messages]
        assert roles[0] == "system"
        assert all(a != b for a, b in zip(roles, roles[1:], strict=False)), "no two messages of one speaker in a row"
        assert roles[-1] == "user"


@settings(max_examples=100, deadline=None)
@given(steps)
def test_hanging_up_stops_everything_and_keeps_what_was_heard(steps: list[tuple[int, int]]) -> None:
    world = run(steps)
    heard = [item.text for item in conversation(world.state)]
    world.post(ev.HungUp("test"))
    assert world.state.closed
    assert [item.text for item in world.state.history] == heard
    assert world.state.next_deadline is None
    assert all(
        books.cancelled or books.sound_ended or books.generation != world.current for books in world.replies.values()
    )
