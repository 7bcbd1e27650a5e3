"""The machine's memory: which part of the conversation prompts still hold, and the summary that stands for the rest.

The history itself stays complete; only prompts leave its beginning out. app/llm/memory.py decides where to cut.
"""

from __future__ import annotations

from dataclasses import replace

from app.dialogue.commands import Summarise
from app.dialogue.events import Summarised, SummaryFailed
from app.dialogue.state import Item, Memory, Reply, State, system_message
from app.dialogue.step import Step
from app.llm import ChatMessage
from app.llm.memory import Entry, begins_turn, cut, prompt_tokens, turns_before


def make_room(step: Step) -> None:
    """Before the model is asked: what no longer fits leaves now, with a summary or without."""
    if not has_room(step.state):
        _leave_out(step, _cut(step.state, _entries(step.state)))


def has_room(state: State) -> bool:
    """Whether a prompt fits as things stand."""
    memory = state.memory
    return prompt_tokens(_entries(state), memory.start, _fixed(state)) <= memory.budget.room


def consider_summary(step: Step) -> None:
    """After a reply: if the prompt nears its limit, have the turns summarised that will have to leave."""
    memory = step.state.memory
    entries = _entries(step.state)
    due = prompt_tokens(entries, memory.start, _fixed(step.state)) > memory.budget.summarise_from
    if due and memory.pending is None:
        start = _cut(step.state, entries)
        if start > memory.start:
            _summarise(step, start)


def learn(step: Step, reply: Reply) -> None:
    """The model has counted a prompt: estimates get better."""
    if reply.usage is not None:
        texts = [message.content for message in reply.messages]
        gauge = step.state.memory.gauge.calibrated(texts, reply.usage.prompt_tokens)
        _change(step, gauge=gauge)


def refused(step: Step, reply: Reply) -> bool:
    """The prompt was too long after all: leave out at least half of what can go. False if nothing can."""
    state = step.state
    memory = state.memory
    last = _last_user(state.history)
    if last <= memory.start:
        return False
    if memory.gauge.measured:
        length = sum(memory.gauge.tokens(message.content) for message in reply.messages)
        _change(step, budget=memory.budget.refused(length))
    else:
        _change(step, gauge=memory.gauge.refused())
    entries = _entries(step.state)
    half = memory.start + (last - memory.start + 1) // 2
    half = next((index for index in range(half, last) if begins_turn(entries, index)), last)
    _leave_out(step, max(_cut(step.state, entries), half))
    return True


def may_pin(state: State, text: str) -> bool:
    """Pinned messages never leave, so they may take up to half of the room."""
    gauge, room = state.memory.gauge, state.memory.budget.room
    pinned = [item.text for item in (*state.history, *state.typed) if item.pinned]
    return gauge.tokens(state.system_prompt) + sum(map(gauge.tokens, [*pinned, text])) <= room // 2


def summarised(step: Step, event: Summarised) -> None:
    memory = step.state.memory
    if memory.pending != event.start:
        return
    # What has left in the meantime beyond the summary's end is not in it.
    complete = event.start >= memory.start
    _change(
        step,
        start=max(memory.start, event.start),
        summary=event.text,
        summarised_to=event.start,
        left_out=not complete,
        pending=None,
    )
    _tell(step)
    if not complete:
        _summarise(step, memory.start)


def summary_failed(step: Step, event: SummaryFailed) -> None:
    """The turns stay for as long as they fit, and the end of the next reply brings another attempt."""
    if step.state.memory.pending == event.start:
        _change(step, pending=None)


def _leave_out(step: Step, start: int) -> None:
    """Cut without waiting for a summary; the one that is on its way, or a new one, takes the marker's place."""
    memory = step.state.memory
    if start <= memory.start:
        return
    _change(step, start=start, left_out=True)
    if memory.pending is None:
        _summarise(step, start)
    _tell(step)


def _summarise(step: Step, start: int) -> None:
    memory = step.state.memory
    leaving = step.state.history[memory.summarised_to : start]
    messages = tuple(ChatMessage(item.role, item.text) for item in leaving if not item.pinned)
    if messages:
        _change(step, pending=start)
        step.do(Summarise(start, memory.summary, messages, memory.gauge, memory.budget))


def _cut(state: State, entries: list[Entry]) -> int:
    memory = state.memory
    fixed, budget = _fixed(state), memory.budget
    pending = memory.pending or 0
    # The summary on its way ends there: cutting at the same place leaves nothing out of both.
    if pending > memory.start and prompt_tokens(entries, pending, fixed) <= budget.room:
        return pending
    return cut(entries, memory.start, fixed, aim=budget.aim, room=budget.room)


def _fixed(state: State) -> int:
    """Tokens of the system message, with room for the longest summary."""
    memory = state.memory
    text = system_message(state.system_prompt, replace(memory, summary="", left_out=True))
    return memory.gauge.tokens(text) + memory.budget.summary_tokens


def _entries(state: State) -> list[Entry]:
    tokens = state.memory.gauge.tokens
    return [Entry(item.role, tokens(item.text), item.pinned) for item in state.history]


def _last_user(history: tuple[Item, ...]) -> int:
    return max((index for index, item in enumerate(history) if item.role == "user"), default=-1)


def _change(step: Step, **fields: object) -> None:
    memory: Memory = replace(step.state.memory, **fields)  # type: ignore[arg-type]
    step.change(memory=memory)


def _tell(step: Step) -> None:
    memory = step.state.memory
    step.tell(
        "parley.context",
        turns=turns_before(_entries(step.state), memory.start),
        summary=memory.summary,
        complete=not memory.left_out,
    )
