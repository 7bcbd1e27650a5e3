"""Conversations that outgrow the model's context: what prompts hold, what a summary stands for, what is told."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.dialogue import events as ev
from app.dialogue.state import Memory, State, conversation
from app.errors import ContextOverflow, StageUnavailable
from app.llm.memory import Budget
from tests.dialogue.test_machine_properties import ACTIONS
from tests.kit.machine_world import LIMITS, World
from tests.kit.script import FakeLanguageModel, Script
from tests.kit.virtual_time import run_virtual

SMALL = Budget(context_tokens=320, reply_tokens=32)


def small_world() -> World:
    return World(State(LIMITS, system_prompt="Be kind.", memory=Memory(SMALL)))


def check(world: World, new_prompts: int) -> None:
    """After any event; ``new_prompts`` of the prompts came of it."""
    memory = world.state.memory
    assert 0 <= memory.summarised_to <= max(memory.start, memory.pending or 0) <= len(conversation(world.state))
    assert (memory.pending is None) == (not world.summaries), "whoever waits for a summary gets an answer"
    assert memory.left_out or memory.summarised_to >= memory.start, "nothing is missing without its marker"
    if memory.start:
        assert any(tell.type == "parley.context" for tell in world.told), "nothing leaves silently"
    history = conversation(world.state)
    last = max((index for index, item in enumerate(history) if item.role == "user"), default=0)
    for messages in world.prompts[len(world.prompts) - new_prompts :]:
        length = sum(memory.gauge.tokens(message.content) for message in messages)
        assert length <= memory.budget.room or memory.start == last, "it fits, unless nothing more can leave"
        reply = world.state.reply
        early = reply is not None and reply.early and world.state.utterance is not None
        asked = world.state.utterance.words if early else history[last].text
        assert messages[-1].content.endswith(asked)
    for item in history:
        if item.pinned and new_prompts:
            assert any(item.text in message.content for message in world.prompts[-1])


def pin(world: World, number: int) -> None:
    if number % 5 == 0:
        world.post(ev.TypedText(f"remember {number}", pinned=True))


MORE_ACTIONS = [*ACTIONS, *[lambda w, n: w.summarise(n)] * 2, pin]
more_steps = st.lists(st.tuples(st.integers(0, len(MORE_ACTIONS) - 1), st.integers(0, 30)), max_size=120)


def play(numbers: list[tuple[int, int]], world: World) -> World:
    world.advance(0.0)
    for action, number in numbers:
        asked = len(world.prompts)
        MORE_ACTIONS[action](world, number)
        world.check()
        check(world, len(world.prompts) - asked)
    return world


@settings(max_examples=150, deadline=None)
@given(more_steps)
def test_every_rule_holds_in_a_small_context_whatever_happens_in_whatever_order(numbers: list[tuple[int, int]]) -> None:
    play(numbers, small_world())


@pytest.mark.parametrize("seed", range(8))
def test_long_random_conversations_are_summarised_again_and_again(seed: int) -> None:
    random = Random(seed)
    numbers = [(random.randrange(len(MORE_ACTIONS)), random.randrange(31)) for _ in range(1500)]
    world = play(numbers, small_world())
    told = [tell.fields for tell in world.told if tell.type == "parley.context"]
    assert len(told) > 3
    turns = [fields["turns"] for fields in told]
    assert turns == sorted(turns), "what has left does not come back"
    assert any(fields["complete"] for fields in told)


# The whole session, on scripted stages in virtual time

FACTS = [
    f"fact number {number}: the colour of house {number} is blue, and nobody knows who painted it"
    for number in range(40)
]


def typed(text: str, *, pinned: bool | None = None) -> dict[str, object]:
    item: dict[str, object] = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    if pinned is not None:
        item["pinned"] = pinned
    return {"type": "conversation.item.create", "item": item}


async def ask(script: Script, text: str, *, pinned: bool | None = None) -> None:
    """One typed turn, waited for to its end."""
    done = len(script.told("response.done"))
    script.session.receive(typed(text, pinned=pinned))
    script.session.receive({"type": "response.create"})
    await script.until_event("response.done", count=done + 1)
    await script.until(lambda: script.phase == "listening")


def asked(llm: FakeLanguageModel) -> list[list[str]]:
    """The turns' prompts, as texts."""
    return [[message.content for message in request.messages] for request in llm.requests if request.priority != "low"]


def small(llm: FakeLanguageModel) -> Script:
    """With a system prompt of its own, whose length decides when the context is full."""
    prompt = "You are Parley. Answer in one to three short sentences that are easy to say aloud, without lists or code."
    return Script(llm=llm, llm_={"max_tokens": 32}, assistant={"system_prompt": prompt + " Be friendly." * 4})


def test_the_summary_takes_the_place_of_the_oldest_turns_before_there_is_no_room_left() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(context_tokens=400, summaries=[["Houses are blue."], ["All houses are blue."]])
        async with small(llm) as script:
            for fact in FACTS[:12]:
                await ask(script, fact)
            told = script.told("parley.context")
            assert [event["summary"] for event in told] == ["Houses are blue.", "All houses are blue."]
            assert all(event["complete"] for event in told), "nothing left without a summary"
            assert 0 < told[0]["turns"] < told[1]["turns"]
            assert script.told("error") == []
            assert [text for role, text in script.history if role == "user"] == FACTS[:12], (
                "what is kept stays complete"
            )
            last = asked(llm)[-1]
            assert "Summary of the conversation so far: All houses are blue." in last[0]
            assert last[-1] == FACTS[11]
            assert FACTS[0] not in last
            second = [request for request in llm.requests if request.priority == "low"][1]
            assert "Houses are blue." in second.messages[-1].content, "the first summary is part of the next"
            assert FACTS[0] not in second.messages[-1].content

    run_virtual(conversation())


def test_the_beginning_of_the_prompt_stays_the_same_between_two_cuts() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(context_tokens=500, summaries=[["Blue."], ["Blue."]])
        async with small(llm) as script:
            for fact in FACTS[:14]:
                await ask(script, fact)
            prompts = asked(llm)
            grown = [after[: len(before)] == before for before, after in zip(prompts, prompts[1:], strict=False)]
            assert grown.count(False) == len(script.told("parley.context")) == 2

    run_virtual(conversation())


@pytest.mark.parametrize("summary", [[StageUnavailable("gone")], [1e4], [""]], ids=["failed", "late", "empty"])
def test_without_a_summary_the_oldest_turns_leave_all_the_same_and_it_is_told(
    summary: list[str | float | Exception],
) -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(context_tokens=400, summaries=[list(summary) for _ in range(40)])
        async with small(llm) as script:
            for fact in FACTS[:14]:
                await ask(script, fact)
            told = script.told("parley.context")
            assert told
            assert all(event["summary"] == "" and not event["complete"] for event in told)
            assert script.told("error") == [], "nobody is bothered with it"
            assert [event["response"]["status"] for event in script.told("response.done")] == ["completed"] * 14
            last = asked(llm)[-1]
            assert "left out" in last[0]
            assert last[-1] == FACTS[13]
        assert llm.running == 0

    run_virtual(conversation())


def test_a_summary_that_comes_late_takes_the_place_of_the_marker() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(context_tokens=400, summaries=[[20.0, "Late, but blue."]])
        async with small(llm) as script:
            for fact in FACTS[:9]:
                await ask(script, fact)
            await script.wait(30.0)
            told = script.told("parley.context")
            assert [event["complete"] for event in told[:2]] == [False, True]
            assert told[0]["turns"] == told[1]["turns"], "the cut was where the summary ends"
            await ask(script, "and now?")
            assert "left out" not in asked(llm)[-1][0]
            assert "Late, but blue." in asked(llm)[-1][0]

    run_virtual(conversation())


def test_turns_go_on_while_the_summary_is_being_written() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(context_tokens=600, summaries=[[8.0, "Blue."]])
        async with small(llm) as script:
            number = 0
            while not any(request.priority == "low" for request in llm.requests):
                await ask(script, FACTS[number])
                number += 1
            await ask(script, "still there?")
            assert script.told("parley.context") == []
            await script.until_event("parley.context")

    run_virtual(conversation())


def test_what_is_pinned_is_in_every_prompt() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(context_tokens=400)
        async with small(llm) as script:
            await ask(script, "I am allergic to nuts.", pinned=True)
            for fact in FACTS[:14]:
                await ask(script, fact)
            assert len(script.told("parley.context")) >= 2
            for prompt in asked(llm):
                assert any("I am allergic to nuts." in text for text in prompt)

    run_virtual(conversation())


def test_what_is_pinned_may_not_fill_the_context() -> None:
    async def conversation() -> None:
        async with small(FakeLanguageModel(context_tokens=400)) as script:
            script.session.receive(typed("word " * 200, pinned=True))
            assert "llm.context_tokens" in script.told("error")[0]["error"]["message"]
            script.session.receive(typed("word", pinned="yes"))  # type: ignore[arg-type]
            assert "item.pinned" in script.told("error")[1]["error"]["message"]
            await ask(script, "hello")
            assert script.history[0] == ("user", "hello")

    run_virtual(conversation())


def test_a_context_smaller_than_was_said_is_learnt_from_the_refusal() -> None:
    """As with a server whose context is not the one in the settings."""

    async def conversation() -> None:
        llm = FakeLanguageModel(context_tokens=2000)
        async with small(llm) as script:
            llm.context_tokens = 500
            for fact in FACTS[:30]:
                await ask(script, fact)
            assert [event["response"]["status"] for event in script.told("response.done")].count("failed") == 0
            refused = [event for event in script.told("error") if event["error"]["code"] == ContextOverflow.code]
            assert len(refused) == 1
            assert script.told("parley.notice") == []

    run_virtual(conversation())


def test_a_question_that_cannot_fit_alone_is_an_apology_and_the_next_one_is_answered() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(context_tokens=300)
        async with small(llm) as script:
            await ask(script, "hello")
            script.session.receive(typed("x" * 3000))
            script.session.receive({"type": "response.create"})
            notice = await script.until_event("parley.notice")
            assert notice["code"] == "no_answer"
            await script.until(lambda: script.phase == "listening")
            await ask(script, "and now?")
            assert script.history[-1] == ("assistant", "All right.")

    run_virtual(conversation())


def test_hanging_up_ends_the_summary_too() -> None:
    async def conversation() -> None:
        llm = FakeLanguageModel(context_tokens=400, summaries=[[50.0, "never"]])
        async with small(llm) as script:
            for fact in FACTS[:7]:
                await ask(script, fact)
            assert llm.running == 1
        assert llm.running == 0

    run_virtual(conversation())


def test_a_stale_summary_changes_nothing() -> None:
    world = small_world()
    before = world.state
    world.post(ev.Summarised(3, "of another time"))
    world.post(ev.SummaryFailed(3, "stage_failed", "x"))
    assert world.state.memory == before.memory
    assert world.told == []
