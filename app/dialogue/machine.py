"""The conversation as a pure function: ``(state, event, now) -> (state, commands)``.

No I/O, no asyncio, no clock of its own. All races between the user, the stages and the transport
are orderings of events here. ``turns`` holds what the user's side does, ``replies`` the assistant's,
``remembering`` what prompts hold of a conversation that has grown long.
"""

from __future__ import annotations

from app.audio.vad import SpeechLikely, SpeechStarted, SpeechStopped
from app.dialogue import remembering, replies, turns
from app.dialogue.commands import Command, DropRecognition, EndSession
from app.dialogue.events import (
    AnswerRequested,
    ClauseSound,
    ClauseStarted,
    Event,
    GreetingDue,
    HungUp,
    Played,
    ReplyFailed,
    ReplySoundEnded,
    ReplyText,
    ReplyTextEnded,
    StopRequested,
    Summarised,
    SummaryFailed,
    Tick,
    Transcribed,
    TranscriptionFailed,
    TurnJudged,
    TypedText,
)
from app.dialogue.state import Reply, State, Timer
from app.dialogue.step import Step


def reduce(state: State, event: Event, now: float) -> tuple[State, list[Command]]:
    """The next state, and what to do about it. ``now`` is in seconds and never goes back."""
    if state.closed:
        return state, []
    step = Step(state, now)
    _apply(step, event)
    _keep_idle_timer(step)
    if step.state.phase != state.phase and not step.state.closed:
        step.tell("parley.state", state=step.state.phase)
    return step.state, step.commands


def _apply(step: Step, event: Event) -> None:
    match event:
        case SpeechLikely():
            turns.speech_likely(step)
        case SpeechStarted():
            turns.speech_started(step, event)
        case SpeechStopped():
            turns.speech_stopped(step, event)
        case Transcribed():
            turns.transcribed(step, event)
        case TranscriptionFailed():
            turns.transcription_failed(step, event)
        case TurnJudged():
            turns.judged(step, event)
        case TypedText():
            turns.typed(step, event)
        case AnswerRequested():
            turns.answer_requested(step)
        case StopRequested():
            replies.interrupt(step)
        case GreetingDue():
            replies.begin_greeting(step, event.text)
        case Summarised():
            remembering.summarised(step, event)
        case SummaryFailed():
            remembering.summary_failed(step, event)
        case Tick():
            _tick(step, event)
        case HungUp():
            _hang_up(step, event.reason)
        case _:
            reply = step.state.reply
            if reply is not None and reply.generation == event.generation:  # else it is of an older reply
                _apply_to_reply(step, reply, event)


def _apply_to_reply(
    step: Step,
    reply: Reply,
    event: ReplyText | ReplyTextEnded | ClauseStarted | ClauseSound | ReplySoundEnded | ReplyFailed | Played,
) -> None:
    if isinstance(event, Played):
        replies.played(step, reply, event)
        return
    if reply.failed_with is not None:  # given up: only its last sounds still count
        return
    match event:
        case ReplyText():
            replies.text(step, reply, event)
        case ReplyTextEnded():
            replies.text_ended(step, event)
        case ClauseStarted():
            replies.clause_started(step, reply, event)
        case ClauseSound():
            replies.clause_sound(step, reply, event)
        case ReplySoundEnded():
            replies.sound_ended(step, event)
        case ReplyFailed():
            replies.failed(step, reply, event)


def _tick(step: Step, event: Tick) -> None:
    for timer in [timer for timer, at in step.state.timers.items() if at <= step.now]:
        if timer not in step.state.timers:  # an earlier one of this tick has settled it
            continue
        step.clear_timers(timer)
        match timer:
            case Timer.BARGE_IN:
                turns.barged_in(step, event.voiced)
            case Timer.LIKELY:
                turns.likely_no_more(step)
            case Timer.TURN_END:
                turns.turn_over(step)
            case Timer.UTTERANCE:
                turns.spoke_too_long(step, event.at_sample)
            case Timer.RECOGNITION:
                turns.not_recognised(step, "stage_timeout", "Recognition did not answer in time (asr.timeout_s).")
            case Timer.IDLE:
                _hang_up(step, "idle")
            case _:
                replies.overdue(step, timer)


def _keep_idle_timer(step: Step) -> None:
    """The idle clock runs while nobody is doing anything, so the assistant's own thinking never counts."""
    if step.state.closed or step.state.phase != "listening":
        step.clear_timers(Timer.IDLE)
    elif Timer.IDLE not in step.state.timers:
        step.set_timer(Timer.IDLE, step.state.limits.idle_timeout_s)


def _hang_up(step: Step, reason: str) -> None:
    if (utterance := step.state.utterance) is not None:
        step.do(DropRecognition(utterance.id, utterance.revision))
    replies.interrupt(step)
    step.change(utterance=None, closed=True, timers={})
    step.do(EndSession(reason))
