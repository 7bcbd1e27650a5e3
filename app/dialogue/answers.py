"""How a reply begins: an answer, one that is begun early, a greeting, a line of Parley's own."""

from __future__ import annotations

from dataclasses import replace

from app.dialogue import playback, remembering
from app.dialogue.commands import Aside, Command, Draft, Generate, Hold, Release, Say, SayPhrase
from app.dialogue.phrases import Phrase, phrase_text
from app.dialogue.state import Item, Reply, Timer, Utterance, prompt
from app.dialogue.step import Step
from app.dialogue.words.commands import asks_to_go_on, is_farewell
from app.telemetry.trace import TurnTrace

_FILLER_S = 1.0
"""About as long as "One moment." is heard."""
_FILLER_AGAIN_S = 0.5
_LOOK_BACK_ITEMS = 6
"""How far back a reply may lie that "go on" still means."""


def begin_answer(
    step: Step, trace: TurnTrace, *, words: str = "", wasted_tokens: int = 0, silent: bool = False
) -> None:
    """Reply to what stands last in the history; ``words`` is what was said, if it was spoken."""
    if text := _known_answer(step, words):
        reply = _begin(step, None, replace(trace, requested=step.now), silent=silent)
        step.change_reply(last=_is_goodbye(step, words))
        _start(step, Say(reply.generation, text, spoken=not silent))
    else:
        remembering.make_room(step)
        reply = _begin(step, None, replace(trace, requested=step.now), silent=silent)
        messages = prompt(step.state)
        step.change_reply(messages=messages, last=_is_goodbye(step, words), wasted_tokens=wasted_tokens)
        _start(step, Generate(reply.generation, messages, spoken=not silent))
    step.set_timer(Timer.FIRST_TEXT, step.state.limits.first_text_timeout_s)
    if not silent:
        _expect_patience(step, 0.0)


def begin_early(step: Step, utterance: Utterance, words: str) -> None:
    """Answer ``words`` though the turn may not be over: unheard and untold until ``adopt``."""
    state = replace(step.state, history=(*step.state.history, Item(utterance.id, "user", words)))
    if not remembering.has_room(state):
        return
    messages = prompt(state)
    reply = Reply(step.new_item_id(), step.state.generation + 1, early=True, messages=messages)
    step.change(reply=replace(reply, trace=TurnTrace(requested=step.now)), generation=reply.generation)
    _start(step, Generate(reply.generation, messages))
    step.set_timer(Timer.FIRST_TEXT, step.state.limits.first_text_timeout_s)


def adopt(step: Step, utterance: Utterance, words: str) -> None:
    """The turn is over, and its words are those that were answered early: the reply may be heard."""
    reply = step.state.reply
    assert reply is not None
    requested = reply.trace.requested
    assert requested is not None
    trace = replace(
        utterance.trace,
        requested=requested,
        first_text=reply.trace.first_text,
        first_clause=reply.trace.first_clause,
        first_sound=reply.trace.first_sound,
        queue_ms=reply.trace.queue_ms,
        prefill_ms=reply.trace.prefill_ms,
    )
    step.change_reply(
        early=False,
        early_s=step.now - requested,
        wasted_tokens=utterance.wasted_tokens,
        last=_is_goodbye(step, words),
        trace=trace,
    )
    tell_so_far(step, reply)
    if not step.state.left:
        step.do(Release())
    playback.expect(step)
    if not reply.queued_samples:
        _expect_patience(step, step.now - requested)


def begin_greeting(step: Step, text: str) -> None:
    """Speak a fixed text that counts as a contribution to the conversation."""
    spoken = step.state.spoken
    reply = _begin(step, None, TurnTrace(), silent=not spoken)
    step.set_timer(Timer.FIRST_TEXT, step.state.limits.first_text_timeout_s)
    _start(step, Say(reply.generation, text, spoken=spoken))


def begin_phrase(step: Step, phrase: Phrase) -> None:
    """Speak one of Parley's own lines; it does not become part of the conversation."""
    tell_notice(step, phrase)
    if not step.state.spoken:
        return
    reply = _begin(step, phrase, TurnTrace())
    step.set_timer(Timer.SOUND, step.state.limits.sound_timeout_s)
    _start(step, SayPhrase(reply.generation, phrase))


def ask_if_away(step: Step) -> None:
    """Once in a long silence."""
    step.change(asked_away=True)
    begin_phrase(step, Phrase.STILL_THERE)


def fill(step: Step) -> None:
    """The answer is slow: say that it is coming."""
    reply = step.state.reply
    if reply is None or reply.queued_samples:
        return
    if step.state.holding:
        step.set_timer(Timer.FILLER, _FILLER_AGAIN_S)
        return
    step.do(Aside(Phrase.ONE_MOMENT))
    step.change(last_said=phrase_text(Phrase.ONE_MOMENT, step.state.language), last_said_at=step.now + _FILLER_S)
    tell_notice(step, Phrase.ONE_MOMENT)


def draft(step: Step, words: str = "") -> None:
    """Let the model read what there is of the conversation, ``words`` being what the user has said of a turn so far.

    After an interruption this is also what cuts the model's own memory to the words that were heard.
    """
    state = step.state
    if state.reply is None:
        history = (*state.history, Item("", "user", words)) if words else state.history
        step.do(Draft(prompt(replace(state, history=history))))


def tell_so_far(step: Step, reply: Reply) -> None:
    """That there is a reply, and what of it is written."""
    _tell_created(step, reply)
    if reply.text:
        tell_text(step, reply, reply.text)


def tell_text(step: Step, reply: Reply, delta: str) -> None:
    kind = "output_text" if reply.silent else "output_audio_transcript"
    step.tell(f"response.{kind}.delta", response_id=reply.id, item_id=reply.id, delta=delta)


def _begin(step: Step, phrase: Phrase | None, trace: TurnTrace, *, silent: bool = False) -> Reply:
    reply = Reply(step.new_item_id(), step.state.generation + 1, phrase, silent=silent, trace=trace)
    step.change(reply=reply, generation=reply.generation)
    if phrase is None:
        _tell_created(step, reply)
    return reply


def _start(step: Step, command: Command) -> None:
    step.do(command)
    if step.state.holding:  # nobody is talked over: it waits for the verdict on what the user is saying
        step.do(Hold())


def _expect_patience(step: Step, waited_s: float) -> None:
    if filler_s := step.state.limits.filler_s:
        step.set_timer(Timer.FILLER, max(0.0, filler_s - waited_s))


def may_be_known(step: Step, words: str) -> bool:
    """Whether ``words`` are answered without the model."""
    return asks_to_go_on(words) or (bool(step.state.limits.farewell) and is_farewell(words))


def _known_answer(step: Step, words: str) -> str:
    """What needs no model: a goodbye, and the rest of what it has written already."""
    if asks_to_go_on(words):
        rest = _unheard(step)
        step.change(history=tuple(replace(item, unheard="") for item in step.state.history))
        return rest
    return step.state.limits.farewell if is_farewell(words) else ""


def _is_goodbye(step: Step, words: str) -> bool:
    return step.state.limits.hang_up_on_goodbye and is_farewell(words)


def _unheard(step: Step) -> str:
    recent = step.state.history[-_LOOK_BACK_ITEMS:]
    return next((item.unheard for item in reversed(recent) if item.unheard), "")


def _tell_created(step: Step, reply: Reply) -> None:
    step.tell("response.created", response={"id": reply.id, "status": "in_progress"})


def tell_notice(step: Step, phrase: Phrase) -> None:
    step.tell("parley.notice", code=phrase.value, text=phrase_text(phrase, step.state.language))
