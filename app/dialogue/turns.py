"""The user's side of the machine: when an utterance begins, pauses, is over, and what it asks for."""

from __future__ import annotations

from dataclasses import replace

from app.audio.frames import INPUT_RATE_HZ
from app.audio.vad import SpeechStarted, SpeechStopped
from app.dialogue import remembering, replies
from app.dialogue.commands import DropRecognition, Duck, Hold, JudgeTurn, Transcribe
from app.dialogue.events import (
    Transcribed,
    TranscriptionFailed,
    TurnJudged,
    TypedText,
)
from app.dialogue.phrases import Phrase
from app.dialogue.state import Item, Timer, Utterance
from app.dialogue.step import Step
from app.dialogue.words.nudges import is_nudge
from app.telemetry.trace import TurnTrace

_SEGMENT_SAMPLES = 12 * INPUT_RATE_HZ
"""A pause after this much speech closes the segment, so that a monologue is recognised while it goes on
and no segment nears the 30 s that Whisper can see at once."""

_SECOND_LOOK_S = 0.06
"""A pause between words is looked past this often, until the voice detector says that speech has stopped."""

_LIKELY_S = 0.25
"""The voice detector takes at most this long to make up its mind."""

_UTTERANCE_TIMERS = (Timer.LIKELY, Timer.TURN_END, Timer.UTTERANCE, Timer.RECOGNITION, Timer.BARGE_IN)


# The user speaks and pauses


def speech_likely(step: Step) -> None:
    """Nothing is lost by listening more closely for a moment."""
    reply = step.state.reply
    if step.state.utterance is None and reply is not None and reply.audible:
        step.do(Duck())
        step.set_timer(Timer.LIKELY, _LIKELY_S)


def likely_no_more(step: Step) -> None:
    if step.state.utterance is None:
        replies.resume(step)


def speech_started(step: Step, event: SpeechStarted) -> None:
    utterance = step.state.utterance
    if utterance is not None and utterance.speaking:
        return
    start_sample = max(0, event.at_sample - step.state.limits.pre_roll_samples)
    if utterance is None:
        utterance = Utterance(step.new_item_id(), start_sample)
        step.change(utterance=utterance)
        step.set_timer(Timer.UTTERANCE, step.state.limits.max_utterance_s)
    else:
        utterance = _go_on(step, utterance, event.at_sample, start_sample)
    reply = step.state.reply
    if reply is not None and reply.audible:
        step.do(Duck())
        step.set_timer(Timer.BARGE_IN, step.state.limits.barge_in_s)
    elif reply is not None:
        step.do(Hold())
        step.clear_timers(Timer.PLAYBACK)
    started_ms = event.at_sample * 1000 // INPUT_RATE_HZ
    step.tell("input_audio_buffer.speech_started", item_id=utterance.id, audio_start_ms=started_ms)


def _go_on(step: Step, utterance: Utterance, at_sample: int, start_sample: int) -> Utterance:
    """The pause was not the end: the same utterance continues, and what was concluded from the pause is void."""
    step.clear_timers(Timer.TURN_END, Timer.RECOGNITION)
    if at_sample - utterance.start_sample >= _SEGMENT_SAMPLES:
        return step.change_utterance(
            speaking=True, over=False, start_sample=start_sample, texts=(*utterance.texts, utterance.text), text=None
        )
    step.do(DropRecognition(utterance.id, utterance.revision))
    return step.change_utterance(speaking=True, over=False, text=None)


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
    segment = len(utterance.texts)
    step.do(Transcribe(utterance.id, segment, utterance.revision, utterance.start_sample, end_sample))
    if limits.turn_threshold is not None:
        step.do(JudgeTurn(utterance.id, utterance.revision, utterance.start_sample, end_sample))
    step.clear_timers(Timer.BARGE_IN)
    step.set_timer(Timer.TURN_END, max(0.0, limits.turn_wait_s - limits.silence_s))
    step.set_timer(Timer.RECOGNITION, limits.recognition_timeout_s)
    stopped_ms = event.at_sample * 1000 // INPUT_RATE_HZ
    step.tell("input_audio_buffer.speech_stopped", item_id=utterance.id, audio_end_ms=stopped_ms)


def spoke_too_long(step: Step, at_sample: int) -> None:
    """The utterance has no end (or is no speech at all): answer what there is of it."""
    if (utterance := step.state.utterance) is not None:
        if utterance.speaking:
            speech_stopped(step, SpeechStopped(at_sample))
        turn_over(step)


def barged_in(step: Step, voiced: bool) -> None:
    """Speech over the assistant has lasted too long to be a cough, unless it has fallen silent already."""
    if (utterance := step.state.utterance) is None or not utterance.speaking:
        return
    if voiced:
        replies.interrupt(step)
    else:
        step.set_timer(Timer.BARGE_IN, _SECOND_LOOK_S)


# What was said


def transcribed(step: Step, event: Transcribed) -> None:
    utterance = step.state.utterance
    if utterance is None or utterance.id != event.utterance_id:
        return
    text = event.text.strip()
    if event.segment < len(utterance.texts):
        texts = (*utterance.texts[: event.segment], text, *utterance.texts[event.segment + 1 :])
        utterance = step.change_utterance(texts=texts, language=event.language)
    elif event.revision == utterance.revision and not utterance.speaking:
        trace = replace(utterance.trace, transcript=step.now)
        utterance = step.change_utterance(text=text, language=event.language, trace=trace)
        step.clear_timers(Timer.RECOGNITION)
    else:
        return
    if utterance.speaking or (words := utterance.words) is None:
        return
    if not words:
        _discard(step, utterance)
        return
    if step.state.reply is not None and step.state.reply.audible:
        replies.interrupt(step)  # words, not a cough
    _answer_if_complete(step)


def transcription_failed(step: Step, event: TranscriptionFailed) -> None:
    utterance = step.state.utterance
    if utterance is None or utterance.id != event.utterance_id:
        return
    if event.segment < len(utterance.texts):
        transcribed(step, Transcribed(event.utterance_id, event.segment, event.revision, "", utterance.language))
    elif event.revision == utterance.revision and not utterance.speaking:
        not_recognised(step, event.code, event.message)


def not_recognised(step: Step, code: str, message: str) -> None:
    """Recognition failed or came too late. Words of earlier segments still count; else say so."""
    utterance = step.state.utterance
    if utterance is None:
        return
    known = " ".join(text for text in utterance.texts if text)
    if known:
        step.change_utterance(texts=(known,), text="", over=True)
        _answer_if_complete(step)
        return
    error = {"type": "asr_error", "code": code, "message": message}
    _forget(step)
    step.tell("conversation.item.input_audio_transcription.failed", item_id=utterance.id, error=error)
    if step.state.reply is None:
        replies.begin_phrase(step, Phrase.NOT_HEARD)
    else:
        replies.resume(step)


def judged(step: Step, event: TurnJudged) -> None:
    utterance, threshold = step.state.utterance, step.state.limits.turn_threshold
    if utterance is None or utterance.id != event.utterance_id or utterance.revision != event.revision:
        return
    if not utterance.speaking and threshold is not None and event.completeness >= threshold:
        turn_over(step)


def turn_over(step: Step) -> None:
    """The user has finished. Answer now, or as soon as the words are there."""
    utterance = step.state.utterance
    if utterance is None or utterance.over or utterance.speaking:
        return
    step.clear_timers(Timer.TURN_END)
    step.change_utterance(over=True, trace=replace(utterance.trace, turn_end=step.now))
    _answer_if_complete(step)


def _answer_if_complete(step: Step) -> None:
    utterance = step.state.utterance
    if utterance is None or not utterance.over or not (words := utterance.words):
        return
    nudged = step.state.holding and is_nudge(words)
    if not nudged:
        replies.interrupt(step)
    _forget(step)
    _add_user_items(step, Item(utterance.id, "user", words))
    step.tell(
        "conversation.item.input_audio_transcription.completed",
        item_id=utterance.id,
        transcript=words,
        language=utterance.language,
    )
    if nudged:
        replies.resume(step)  # the answer they are waiting for is on its way; starting over would delay it
    else:
        replies.begin_answer(step, utterance.trace)


def _discard(step: Step, utterance: Utterance) -> None:
    """It was noise: as if nothing had happened."""
    _forget(step)
    error = {"type": "asr_error", "code": "no_words", "message": "No words were recognised."}
    step.tell("conversation.item.input_audio_transcription.failed", item_id=utterance.id, error=error)
    replies.resume(step)


def _forget(step: Step) -> None:
    step.change(utterance=None)
    step.clear_timers(*_UTTERANCE_TIMERS)


def _add_user_items(step: Step, *items: Item) -> None:
    step.change(history=(*step.state.history, *items))


# What was typed


def typed(step: Step, event: TypedText) -> None:
    if event.pinned and not remembering.may_pin(step.state, event.text):
        message = "Pinned messages may take half of the room for prompts (llm.context_tokens): this one is too long."
        step.tell("error", error={"type": "invalid_request_error", "code": "invalid_request", "message": message})
        return
    item = Item(step.new_item_id(), "user", event.text.strip(), event.pinned)
    step.change(typed=(*step.state.typed, item))
    step.tell(
        "conversation.item.input_audio_transcription.completed",
        item_id=item.id,
        transcript=item.text,
        language=step.state.language,
    )


def answer_requested(step: Step) -> None:
    state = step.state
    unanswered = bool(state.history) and state.history[-1].role == "user" and state.reply is None
    if not state.typed and not unanswered:
        message = "There is nothing to answer: send conversation.item.create first."
        step.tell("error", error={"type": "invalid_request_error", "code": "invalid_request", "message": message})
        return
    replies.interrupt(step)
    _add_user_items(step, *step.state.typed)
    step.change(typed=())
    replies.begin_answer(step, TurnTrace())
