"""The words of an utterance, as recognition brings them: while it is spoken, when it pauses, or not at all."""

from __future__ import annotations

from dataclasses import replace

from app.dialogue import answers, overlap, playback, turns
from app.dialogue.commands import Preview
from app.dialogue.events import Previewed, Transcribed, TranscriptionFailed
from app.dialogue.phrases import Phrase
from app.dialogue.state import Timer, Utterance
from app.dialogue.step import Step
from app.dialogue.words.agreement import agreed


def look(step: Step, at_sample: int) -> None:
    """The user has been speaking for a while: what are the words so far?"""
    utterance = step.state.utterance
    if utterance is not None and utterance.speaking:
        where = (utterance.id, len(utterance.texts), utterance.revision, utterance.start_sample, at_sample)
        step.do(Preview(*where, known=utterance.confirmed, urgent=False))
        turns.expect_partial(step)


def previewed(step: Step, event: Previewed) -> None:
    utterance = step.state.utterance
    if utterance is None or not utterance.speaking or utterance.id != event.utterance_id:
        return
    if (event.segment, event.revision) != (len(utterance.texts), utterance.revision):
        return
    before, words = utterance.confirmed, event.text.strip()
    confirmed = agreed(utterance.partial or "", words, before)
    utterance = step.change_utterance(
        partial=words, previewed_at=step.now, confirmed=confirmed, language=event.language
    )
    if utterance.overlapping:
        overlap.weigh(step, utterance, words)
    elif len(confirmed) > len(before):
        _confirm(step, utterance, confirmed[len(before) :])


def _confirm(step: Step, utterance: Utterance, more: str) -> None:
    step.tell("conversation.item.input_audio_transcription.delta", item_id=utterance.id, delta=more)
    if all(text is not None for text in utterance.texts):
        answers.draft(step, " ".join(text for text in (*utterance.texts, utterance.confirmed) if text))


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
    else:
        return
    if utterance.speaking or (words := utterance.words) is None:
        return
    step.clear_timers(Timer.RECOGNITION)
    if not words:
        turns.discard(step, utterance, "no_words", "No words were recognised.")
    elif overlap.is_for_us(step, utterance, words):
        turns.consider(step)


def transcription_failed(step: Step, event: TranscriptionFailed) -> None:
    utterance = step.state.utterance
    if utterance is None or utterance.id != event.utterance_id:
        return
    if event.segment < len(utterance.texts):
        transcribed(step, Transcribed(event.utterance_id, event.segment, event.revision, "", utterance.language))
    elif event.revision == utterance.revision and not utterance.speaking:
        not_recognised(step, event.code, event.message)


def not_recognised(step: Step, code: str, message: str) -> None:
    """Recognition failed or came too late. Words of other segments still count; else say so."""
    utterance = step.state.utterance
    if utterance is None:
        return
    known = " ".join(text for text in (*utterance.texts, utterance.text) if text)
    if known:
        step.change_utterance(texts=(known,), text="", over=True)
        turns.consider(step)
        return
    overlap.not_recognised(step, utterance)
    turns.forget(step)
    turns.tell_failed(step, utterance, code, message)
    if step.state.reply is None:
        answers.begin_phrase(step, Phrase.NOT_HEARD)
    else:
        playback.resume(step)
