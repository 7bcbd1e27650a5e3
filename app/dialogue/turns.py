"""The user's side of the machine: when an utterance begins, pauses, goes on and is over.

``hearing`` holds what was said in it, ``overlap`` what it means when the assistant is speaking.
"""

from __future__ import annotations

from dataclasses import replace

from app.audio.frames import INPUT_RATE_HZ
from app.audio.vad import SpeechStarted, SpeechStopped
from app.dialogue import answers, manual, overlap, playback, replies
from app.dialogue.commands import DropRecognition, Hold, JudgeTurn, Transcribe
from app.dialogue.events import TurnJudged
from app.dialogue.state import Item, Timer, Utterance
from app.dialogue.step import Step
from app.dialogue.words.backchannel import is_backchannel
from app.dialogue.words.commands import asks_for_silence
from app.dialogue.words.endpoint import patience_s
from app.dialogue.words.nudges import is_nudge
from app.dialogue.words.plain import FULL_STOPS, QUESTION_MARKS
from app.dialogue.words.unfinished import Ending, ending, sounds_unfinished
from app.telemetry.trace import TurnTrace

_SEGMENT_SAMPLES = 12 * INPUT_RATE_HZ
"""A pause after this much speech closes the segment, so that a monologue is recognised while it goes on
and no segment nears the 30 s that Whisper can see at once."""

_HARDLY_COMPLETE = 0.1
"""Below this the turn model is so sure of more to come that an early reply would be written in vain."""

_UTTERANCE_TIMERS = (
    Timer.LIKELY,
    Timer.PARTIAL,
    Timer.LOOK,
    Timer.TURN_END,
    Timer.UTTERANCE,
    Timer.RECOGNITION,
    Timer.BARGE_IN,
)


# The user speaks and pauses


def speech_started(step: Step, event: SpeechStarted) -> None:
    utterance = step.state.utterance
    if utterance is not None and utterance.speaking:
        return
    step.clear_timers(Timer.LIKELY)
    start_sample = max(0, event.at_sample - step.state.limits.pre_roll_samples)
    if utterance is None:
        reopened = _unheard_turn(step)
        item_id = reopened or step.new_item_id()
        utterance = Utterance(item_id, start_sample, began=step.now, reopened=bool(reopened))
        step.change(utterance=utterance)
        step.set_timer(Timer.UTTERANCE, step.state.limits.max_utterance_s)
    else:
        utterance = _go_on(step, utterance, event.at_sample, start_sample)
    reply = step.state.reply
    if reply is not None and reply.audible:
        overlap.begin(step)
    else:
        if reply is not None:
            step.do(Hold())
            step.clear_timers(Timer.PLAYBACK)
        expect_partial(step)
    started_ms = event.at_sample * 1000 // INPUT_RATE_HZ
    step.tell("input_audio_buffer.speech_started", item_id=utterance.id, audio_start_ms=started_ms)


def _unheard_turn(step: Step) -> str:
    """The turn whose answer is on its way and cannot be heard yet; "" if there is none.

    Whoever speaks now has not finished it, whatever the pause looked like.
    """
    state, reply = step.state, step.state.reply
    unheard = reply is not None and reply.phrase is None and not reply.audible and not (reply.silent and reply.text)
    answered = unheard and bool(state.history)
    return state.answering if answered and state.history[-1].id == state.answering else ""


def expect_partial(step: Step) -> None:
    if partial_s := step.state.limits.partial_s:
        step.set_timer(Timer.PARTIAL, partial_s)


def _go_on(step: Step, utterance: Utterance, at_sample: int, start_sample: int) -> Utterance:
    """The pause was not the end: the same utterance continues, and what was concluded from the pause is void."""
    step.clear_timers(Timer.LOOK, Timer.TURN_END, Timer.RECOGNITION)
    if Timer.UTTERANCE not in step.state.timers:
        step.set_timer(Timer.UTTERANCE, step.state.limits.max_utterance_s)
    replies.drop_early(step)
    void = {"speaking": True, "over": False, "text": None, "completeness": None}
    if at_sample - utterance.start_sample < _SEGMENT_SAMPLES:
        step.do(DropRecognition(utterance.id, utterance.revision))
        return step.change_utterance(**void)
    texts = (*utterance.texts, utterance.text)
    return step.change_utterance(**void, start_sample=start_sample, texts=texts, partial=None, confirmed="")


def speech_stopped(step: Step, event: SpeechStopped) -> None:
    utterance = step.state.utterance
    if utterance is None or not utterance.speaking:
        return
    limits = step.state.limits
    end_sample = event.at_sample + int(limits.silence_s * INPUT_RATE_HZ)
    utterance = step.change_utterance(
        speaking=False,
        revision=utterance.revision + 1,
        trace=TurnTrace(speech_end=step.now - limits.silence_s, recognition_start=step.now),
    )
    segment, known = len(utterance.texts), utterance.confirmed
    step.do(Transcribe(utterance.id, segment, utterance.revision, utterance.start_sample, end_sample, known))
    step.clear_timers(Timer.BARGE_IN, Timer.PARTIAL)
    overlap.pause(step, utterance)
    if not step.state.manual:
        if limits.patience is not None:
            step.set_timer(Timer.LOOK, max(0.0, limits.look_s - limits.silence_s))
        step.set_timer(Timer.TURN_END, max(0.0, limits.turn_wait_s - limits.silence_s))
    step.set_timer(Timer.RECOGNITION, limits.recognition_timeout_s)
    stopped_ms = event.at_sample * 1000 // INPUT_RATE_HZ
    step.tell("input_audio_buffer.speech_stopped", item_id=utterance.id, audio_end_ms=stopped_ms)
    manual.paused(step)


def spoke_too_long(step: Step, at_sample: int) -> None:
    """The utterance has no end (or is no speech at all): answer what there is of it."""
    if (utterance := step.state.utterance) is not None:
        if utterance.speaking:
            speech_stopped(step, SpeechStopped(at_sample))
        step.clear_timers(Timer.LIKELY)
        turn_over(step)


# Is it the end of the turn?


def look(step: Step, at_sample: int) -> None:
    """The pause is long enough for the turn model."""
    utterance = step.state.utterance
    if utterance is not None and not utterance.speaking:
        step.do(JudgeTurn(utterance.id, utterance.revision, utterance.start_sample, at_sample))


def judged(step: Step, event: TurnJudged) -> None:
    utterance = step.state.utterance
    if utterance is None or utterance.id != event.utterance_id or utterance.revision != event.revision:
        return
    if not utterance.speaking:
        step.change_utterance(completeness=event.completeness)
        consider(step)


def consider(step: Step) -> None:
    """The words are there, or a verdict: answer, or wait for as long as they suggest."""
    utterance, limits = step.state.utterance, step.state.limits
    if utterance is None or utterance.speaking or not (words := utterance.words):
        return
    if utterance.over:
        _take_turn(step)
        return
    if step.state.manual:
        return
    wait_s = limits.turn_wait_s
    if limits.patience is not None:
        wait_s = patience_s(utterance.completeness, words, limits.patience)
    assert utterance.trace.speech_end is not None
    left_s = utterance.trace.speech_end + wait_s - step.now
    if left_s <= 0:
        turn_over(step)
        return
    step.set_timer(Timer.TURN_END, left_s)
    hardly = utterance.completeness is not None and utterance.completeness < _HARDLY_COMPLETE
    if step.state.reply is None and _may_be_answered_early(step, utterance, words) and not hardly:
        answers.begin_early(step, utterance, words)


def _may_be_answered_early(step: Step, utterance: Utterance, words: str) -> bool:
    wanted = step.state.limits.early_replies and step.state.spoken and not utterance.no_early and not step.state.typed
    hushed = utterance.interrupted and asks_for_silence(words)
    return wanted and not hushed and ending(words) is not Ending.OPEN and not answers.may_be_known(step, words)


def turn_over(step: Step) -> None:
    """The user has finished. Answer now, or as soon as the words are there."""
    utterance = step.state.utterance
    if utterance is None or utterance.over or utterance.speaking:
        return
    if (likely_until := step.state.timers.get(Timer.LIKELY)) is not None:  # they seem to go on this very moment
        step.set_timer(Timer.TURN_END, max(0.0, likely_until - step.now))
        return
    step.clear_timers(Timer.TURN_END, Timer.LOOK)
    step.change_utterance(over=True, trace=replace(utterance.trace, turn_end=step.now))
    consider(step)


def _take_turn(step: Step) -> None:
    utterance, reply = step.state.utterance, step.state.reply
    assert utterance is not None
    words = utterance.words
    assert words
    early = reply is not None and reply.early
    waiting = step.state.holding and not early
    if waiting and not step.state.manual and is_backchannel(words) and not _asks_for_more(step, utterance):
        overlap.tell_backchannel(step, utterance, words)
        return
    nudged = waiting and is_nudge(words)
    hushed = (utterance.interrupted or waiting) and asks_for_silence(words)
    wasted_tokens = utterance.wasted_tokens
    if not nudged and not early:
        wasted_tokens += reply.tokens if reply is not None and not reply.audible else 0
        replies.interrupt(step)
    forget(step)
    if not nudged or not utterance.reopened:
        utterance, words = _add(step, utterance, words)
    step.change(answering=utterance.id)
    tell_completed(step, utterance)
    if nudged:
        playback.resume(step)  # the answer they are waiting for is on its way; starting over would delay it
    elif hushed:
        replies.interrupt(step)  # "stop" asks for silence, not for an answer
    elif early:
        answers.adopt(step, utterance, words)
    else:
        silent = not step.state.spoken
        answers.begin_answer(step, utterance.trace, words=words, wasted_tokens=wasted_tokens, silent=silent)


def _add(step: Step, utterance: Utterance, words: str) -> tuple[Utterance, str]:
    """Put what was said into the history; the utterance by the name it has there, and the words of the whole turn."""
    *before, last = step.state.history or (Item("", "user", ""),)
    if utterance.reopened and last.id == utterance.id:
        words = f"{last.text} {words}"
        step.change(history=tuple(before))
    elif utterance.reopened:  # something was written in between: the turn cannot be gone on with any more
        utterance = replace(utterance, id=step.new_item_id(), reopened=False)
    add_user_items(step, Item(utterance.id, "user", words))
    return utterance, words


def tell_completed(step: Step, utterance: Utterance) -> None:
    said = next(item.text for item in reversed(step.state.history) if item.id == utterance.id)
    step.tell(
        "conversation.item.input_audio_transcription.completed",
        item_id=utterance.id,
        transcript=said,
        language=utterance.language,
    )


def _asks_for_more(step: Step, utterance: Utterance) -> bool:
    """The turn that is gone on with: it had no end yet ("my answer is"), or was to answer a question."""
    if not utterance.reopened:
        return False
    *before, last = step.state.history
    asked = next((item.text for item in reversed(before) if item.role == "assistant"), "")
    ended = last.text.rstrip().endswith((*FULL_STOPS, *QUESTION_MARKS)) and not sounds_unfinished(last.text)
    return not ended or asked.rstrip().endswith(QUESTION_MARKS)


def add_user_items(step: Step, *items: Item) -> None:
    step.change(history=(*step.state.history, *items), asked_away=False, leaving=False, last_exchange_at=step.now)


# It was nothing


def discard(step: Step, utterance: Utterance, code: str, message: str) -> None:
    """As if nothing had happened."""
    replies.drop_early(step)
    forget(step)
    tell_failed(step, utterance, code, message)
    playback.resume(step)


def tell_failed(step: Step, utterance: Utterance, code: str, message: str) -> None:
    """No words came of it. A turn that it would have gone on with stays as it was."""
    if utterance.reopened:
        tell_completed(step, utterance)
        return
    error = {"type": "asr_error", "code": code, "message": message}
    step.tell("conversation.item.input_audio_transcription.failed", item_id=utterance.id, error=error)


def forget(step: Step) -> None:
    if (utterance := step.state.utterance) is not None:
        step.do(DropRecognition(utterance.id, None))
    step.change(utterance=None)
    step.clear_timers(*_UTTERANCE_TIMERS)
