"""The conversation as a pure function: ``(state, event, now) -> (state, commands)``.

No I/O, no asyncio, no clock of its own. All races between the user, the stages and the transport
are orderings of events here. The user's side: ``turns``, ``hearing`` (their words), ``overlap`` (speech over the
assistant), ``typed``. The assistant's: ``answers`` (how a reply begins), ``replies`` (how it goes on and ends),
``playback``. ``manual`` and ``presence`` are what the client says of itself. ``remembering`` is what prompts hold of a conversation that has grown long.
"""

from __future__ import annotations

from app.audio.vad import SpeechLikely, SpeechStarted, SpeechStopped
from app.dialogue import answers, hearing, manual, overlap, presence, remembering, replies, turns, typed
from app.dialogue.commands import Command, DropRecognition, EndSession
from app.dialogue.events import (
    AnswerRequested,
    ClauseSound,
    ClauseStarted,
    Committed,
    Configured,
    Event,
    GreetingDue,
    HungUp,
    Left,
    Played,
    Previewed,
    ReplyFailed,
    ReplySoundEnded,
    ReplyText,
    ReplyTextEnded,
    Returned,
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

_LEAVE_S = 0.6
"""Time for the last sound to get through the network to the ear."""


def reduce(state: State, event: Event, now: float) -> tuple[State, list[Command]]:
    """The next state, and what to do about it. ``now`` is in seconds and never goes back."""
    if state.closed:
        return state, []
    step = Step(state, now)
    _apply(step, event)
    _keep_idle_timers(step)
    if step.state.phase != state.phase and not step.state.closed:
        step.tell("parley.state", state=step.state.phase)
    return step.state, step.commands


def _apply(step: Step, event: Event) -> None:
    match event:
        case SpeechLikely():
            overlap.likely(step)
        case SpeechStarted():
            turns.speech_started(step, event)
        case SpeechStopped():
            turns.speech_stopped(step, event)
        case Transcribed():
            hearing.transcribed(step, event)
        case TranscriptionFailed():
            hearing.transcription_failed(step, event)
        case Previewed():
            hearing.previewed(step, event)
        case TurnJudged():
            turns.judged(step, event)
        case TypedText():
            typed.typed(step, event)
        case AnswerRequested():
            typed.answer_requested(step, event)
        case StopRequested():
            manual.pressed(step)
            replies.interrupt(step)
        case Committed():
            manual.commit(step)
        case Configured():
            manual.configured(step, event)
        case Left():
            _leave(step, event)
        case Returned():
            presence.returned(step, event)
        case GreetingDue():
            answers.begin_greeting(step, event.text)
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
            case Timer.LIKELY:
                overlap.likely_no_more(step)
            case Timer.BARGE_IN:
                overlap.look(step, event.voiced, event.at_sample)
            case Timer.PARTIAL:
                hearing.look(step, event.at_sample)
            case Timer.LOOK:
                turns.look(step, event.at_sample)
            case Timer.TURN_END:
                turns.turn_over(step)
            case Timer.UTTERANCE:
                turns.spoke_too_long(step, event.at_sample)
            case Timer.RECOGNITION:
                hearing.not_recognised(step, "stage_timeout", "Recognition did not answer in time (asr.timeout_s).")
            case Timer.COMMIT:
                manual.overdue(step, event.at_sample)
            case Timer.RETURN:
                _hang_up(step, "not_resumed")
            case Timer.AWAY:
                answers.ask_if_away(step)
            case Timer.LEAVE:
                _hang_up(step, "goodbye")
            case Timer.IDLE:
                _hang_up(step, "idle")
            case _:
                replies.overdue(step, timer)


def _keep_idle_timers(step: Step) -> None:
    """Their clocks run while nobody is doing anything, so the assistant's own thinking never counts."""
    state, limits = step.state, step.state.limits
    if state.closed or state.left or state.phase != "listening":
        step.clear_timers(Timer.IDLE, Timer.AWAY, Timer.LEAVE)
    elif Timer.IDLE not in state.timers:
        if state.last_exchange_at is None:
            step.change(last_exchange_at=step.now)
        idle_s = step.now - (state.last_exchange_at or step.now)  # noises in between do not count
        step.set_timer(Timer.IDLE, max(0.0, limits.idle_timeout_s - idle_s))
        if limits.away_s and state.history and not state.asked_away:
            step.set_timer(Timer.AWAY, max(0.0, limits.away_s - idle_s))
        if state.leaving:
            step.set_timer(Timer.LEAVE, _LEAVE_S)


def _leave(step: Step, event: Left) -> None:
    if step.state.leaving:
        _hang_up(step, "goodbye")
    elif not step.state.limits.resume_s:
        _hang_up(step, "connection_lost")
    else:
        presence.left(step, event.at_sample)


def _hang_up(step: Step, reason: str) -> None:
    if (utterance := step.state.utterance) is not None:
        step.do(DropRecognition(utterance.id, utterance.revision))
    replies.interrupt(step)
    step.change(utterance=None, closed=True, timers={})
    step.do(EndSession(reason))
