"""Turns that end when the client says so (push to talk), and other wishes of the client about its session."""

from __future__ import annotations

from app.dialogue import turns
from app.dialogue.events import Configured
from app.dialogue.state import Timer
from app.dialogue.step import Step

_ON_ITS_WAY_S = 0.4
"""Sound that was made before the button was let go of may come this much later than the word that it was."""


def commit(step: Step) -> None:
    """The user has finished, though the last of their words may not be here yet."""
    utterance = step.state.utterance
    if utterance is None or utterance.speaking or Timer.LIKELY in step.state.timers:
        step.set_timer(Timer.COMMIT, _ON_ITS_WAY_S)
    else:
        _end_turn(step)


def pressed(step: Step) -> None:
    """The button, if there is one: before the last of their words has come the turn that was to be over goes on."""
    utterance = step.state.utterance
    if step.state.manual and utterance is not None and utterance.speaking:
        step.clear_timers(Timer.COMMIT)


def paused(step: Step) -> None:
    """Speech has stopped: if the button was let go of, that was all."""
    if Timer.COMMIT in step.state.timers:
        step.clear_timers(Timer.COMMIT)
        _end_turn(step)


def overdue(step: Step, at_sample: int) -> None:
    """A noise goes on after the button was let go of, or there was nothing at all."""
    utterance = step.state.utterance
    if utterance is not None and utterance.speaking:
        step.tell("input_audio_buffer.committed", item_id=utterance.id)
        turns.spoke_too_long(step, at_sample)
    else:
        _end_turn(step)


def _end_turn(step: Step) -> None:
    utterance = step.state.utterance
    step.tell("input_audio_buffer.committed", item_id=utterance.id if utterance is not None else None)
    turns.turn_over(step)


def configured(step: Step, event: Configured) -> None:
    step.change(system_prompt=event.system_prompt, manual=event.manual, spoken=event.spoken)
    utterance = step.state.utterance
    if event.manual:
        step.clear_timers(Timer.LOOK, Timer.TURN_END)
    elif utterance is not None and not utterance.speaking and not utterance.over:
        step.set_timer(Timer.TURN_END, step.state.limits.turn_wait_s)
