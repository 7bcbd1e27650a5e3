"""The assistant's side of the machine: how a reply grows, is heard, fails and ends."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from app.dialogue import answers, playback, remembering, turns
from app.dialogue.commands import CancelReply, Flush
from app.dialogue.events import (
    ClauseSound,
    ClauseStarted,
    Played,
    ReplyFailed,
    ReplySoundEnded,
    ReplyText,
    ReplyTextEnded,
)
from app.dialogue.phrases import Phrase, phrase_text
from app.dialogue.state import SAID_CHARS, Reply, Timer, conversation
from app.dialogue.step import Step

_STAGE_TIMERS = (Timer.FIRST_TEXT, Timer.STALL, Timer.SOUND, Timer.FILLER)
_CLAUSE_END = re.compile(r"[.!?,;:。！？，；：]\s*")
_REPLY_TIMERS = (*_STAGE_TIMERS, Timer.PLAYBACK, Timer.BARGE_IN)


# How it grows


def text(step: Step, reply: Reply, event: ReplyText) -> None:
    step.clear_timers(Timer.FIRST_TEXT)
    step.set_timer(Timer.STALL, step.state.limits.stall_timeout_s)
    trace = replace(reply.trace, first_text=reply.trace.first_text or step.now)
    reply = step.change_reply(text=reply.text + event.text, tokens=reply.tokens + event.tokens, trace=trace)
    if reply.silent:
        step.change_reply(heard_chars=len(reply.text))
    if not reply.early:
        answers.tell_text(step, reply, event.text)


def text_ended(step: Step, event: ReplyTextEnded) -> None:
    reply = step.change_reply(text_ended=True)
    if (finished := event.finished) is not None:
        trace = replace(reply.trace, queue_ms=finished.queue_ms, prefill_ms=finished.prefill_ms)
        reply = step.change_reply(usage=finished.usage, trace=trace)
    remembering.learn(step, reply)
    step.clear_timers(Timer.FIRST_TEXT, Timer.STALL)
    if not reply.text.strip():
        _fail(step, Phrase.NO_ANSWER)
        return
    if reply.silent:
        _end(step, "completed")
        return
    _expect_sound(step)
    if reply.audible:
        _tell_timings(step)


def clause_started(step: Step, reply: Reply, _: ClauseStarted) -> None:
    step.set_timer(Timer.SOUND, step.state.limits.sound_timeout_s)
    step.change_reply(trace=replace(reply.trace, first_clause=reply.trace.first_clause or step.now))


def clause_sound(step: Step, reply: Reply, event: ClauseSound) -> None:
    reply = step.change_reply(
        clauses=(*reply.clauses[: event.clause], event.words),
        queued_samples=event.queued_samples,
        trace=replace(reply.trace, first_sound=reply.trace.first_sound or step.now),
    )
    step.clear_timers(Timer.SOUND, Timer.FILLER)
    if not event.final:
        step.set_timer(Timer.SOUND, step.state.limits.sound_timeout_s)
    if Timer.PLAYBACK not in step.state.timers:
        playback.expect(step)


def sound_ended(step: Step, event: ReplySoundEnded) -> None:
    reply = step.change_reply(total_samples=event.total_samples, queued_samples=event.total_samples)
    step.clear_timers(Timer.SOUND)
    if event.total_samples == 0 and reply.phrase is None:
        _fail(step, Phrase.NO_ANSWER)  # there is text, but nothing in it that can be said
    elif not reply.pending_sound:
        _end_of_sound(step)
    elif Timer.PLAYBACK not in step.state.timers:
        playback.expect(step)


# How it is heard


def played(step: Step, before: Reply, event: Played) -> None:
    trace = replace(before.trace, first_played=before.trace.first_played or step.now)
    reply = step.change_reply(played_samples=event.samples, heard_chars=before.heard_after(event.samples), trace=trace)
    if reply.heard_chars != before.heard_chars and reply.phrase is None:
        step.tell("parley.heard", response_id=reply.id, item_id=reply.id, chars=reply.heard_chars)
    if reply.text_ended:
        _tell_timings(step)
    if step.state.connecting:
        step.change(connecting=False)
    step.clear_timers(Timer.PLAYBACK)
    playback.expect(step)
    if reply.total_samples is not None and not reply.pending_sound:
        _end_of_sound(step)
    else:
        _expect_sound(step)


def _expect_sound(step: Step) -> None:
    """With all text written and none of its sound queued, silence is the voice's fault."""
    reply = step.state.reply
    assert reply is not None
    waiting = reply.text_ended and reply.total_samples is None and not reply.pending_sound
    if waiting and Timer.SOUND not in step.state.timers:
        step.set_timer(Timer.SOUND, step.state.limits.sound_timeout_s)


# How it ends


def interrupt(step: Step) -> None:
    """Stop the reply here and now. What has been heard of it stays in the conversation, nothing else does."""
    reply = step.state.reply
    if reply is None:
        return
    step.do(CancelReply(reply.generation), Flush())
    if reply.early:
        _drop(step, reply)
    else:
        _end(step, "cancelled")


def drop_early(step: Step) -> None:
    """The user goes on: what was begun as an answer answers nothing."""
    if (reply := step.state.reply) is not None and reply.early:
        interrupt(step)


def _drop(step: Step, reply: Reply) -> None:
    step.clear_timers(*_REPLY_TIMERS)
    step.change(reply=None)
    if (utterance := step.state.utterance) is not None:
        step.change_utterance(wasted_tokens=utterance.wasted_tokens + reply.tokens)


def failed(step: Step, reply: Reply, event: ReplyFailed) -> None:
    if reply.early:
        _give_up_early(step)
        return
    _tell_error(step, event.stage, event.code, event.message)
    if event.code == "context_length_exceeded" and not reply.text and remembering.refused(step, reply):
        interrupt(step)
        answers.begin_answer(step, reply.trace, silent=reply.silent)
    elif event.code == "overloaded":
        _fail(step, Phrase.BUSY)
    elif event.stage == "tts":
        _fail(step, Phrase.NO_VOICE)
    else:
        _fail(step, Phrase.STALLED if reply.text else Phrase.NO_ANSWER)


def overdue(step: Step, timer: Timer) -> None:
    """A deadline of the reply has passed."""
    reply = step.state.reply
    if reply is None:
        return
    if reply.early:
        _give_up_early(step)
    elif timer is Timer.FILLER:
        answers.fill(step)
    elif timer is Timer.STALL and reply.pending_sound:  # nobody waits for the rest yet
        step.set_timer(Timer.STALL, step.state.limits.stall_timeout_s)
    elif timer is Timer.PLAYBACK:
        _tell_error(step, "playback", "playback_stalled", "The client takes no sound any more; the reply was given up.")
        interrupt(step)
    elif timer is Timer.SOUND:
        _tell_error(step, "tts", "stage_timeout", "The voice did not answer in time (tts.timeout_s).")
        _fail(step, Phrase.NO_VOICE)
    else:
        key = "llm.first_token_timeout_s" if timer is Timer.FIRST_TEXT else "llm.stall_timeout_s"
        _tell_error(step, "llm", "stage_timeout", f"The language model did not answer in time ({key}).")
        _fail(step, Phrase.STALLED if reply.text else Phrase.NO_ANSWER)


def _give_up_early(step: Step) -> None:
    """It is tried again, and failures are told, once the turn is over."""
    interrupt(step)
    if step.state.utterance is not None:
        step.change_utterance(no_early=True)


def _tell_error(step: Step, stage: str, code: str, message: str) -> None:
    step.tell("error", error={"type": f"{stage}_error", "code": code, "message": message})


def _fail(step: Step, phrase: Phrase) -> None:
    """Give the reply up: what is queued of it is still played, then ``phrase`` is said."""
    reply = step.state.reply
    assert reply is not None
    if reply.early:
        _give_up_early(step)
        return
    step.clear_timers(*_STAGE_TIMERS)
    step.do(CancelReply(reply.generation))
    reply = step.change_reply(failed_with=phrase, total_samples=reply.queued_samples)
    if not reply.pending_sound:
        _end_of_sound(step)


def _end_of_sound(step: Step) -> None:
    reply = step.state.reply
    assert reply is not None
    if reply.failed_with is None:
        _end(step, "completed")
        return
    _end(step, "failed")
    if reply.silent:
        answers.tell_notice(step, reply.failed_with)
    elif reply.phrase is None:  # a line of Parley's own that fails is not followed by another
        answers.begin_phrase(step, reply.failed_with)


def _end(step: Step, status: Literal["completed", "cancelled", "failed"]) -> None:
    """Close the reply: the one place where assistant text enters the history."""
    reply = step.state.reply
    assert reply is not None
    history = conversation(step.state)
    if status == "cancelled" and history and history[-1].id == reply.id:
        history = (*history[:-1], replace(history[-1], unheard=_unheard(reply)))
    _tell_timings(step)
    step.clear_timers(*_REPLY_TIMERS)
    step.change(
        reply=None,
        history=history,
        leaving=step.state.leaving or (reply.last and status != "cancelled"),
        last_said=_said(step, reply),
        last_said_at=step.now,
    )
    utterance = step.state.utterance
    if utterance is not None and utterance.speaking and Timer.PARTIAL not in step.state.timers:
        turns.expect_partial(step)  # it began over the reply
    if reply.phrase is None:
        step.change(last_exchange_at=step.now)
        _tell_done(step, reply)
        step.tell("response.done", response={"id": reply.id, "status": status, "usage": _usage(reply)})
        remembering.consider_summary(step)


def _tell_done(step: Step, reply: Reply) -> None:
    ids = {"response_id": reply.id, "item_id": reply.id}
    if reply.silent:
        step.tell("response.output_text.done", **ids, text=reply.heard_text)
    else:
        step.tell("response.output_audio_transcript.done", **ids, transcript=reply.heard_text)


def _unheard(reply: Reply) -> str:
    """What would have come, from the beginning of the clause that was cut: half a clause is no way to go on.

    Nothing if it was still being written: the model then has to go on itself.
    """
    if not reply.text_ended:
        return ""
    begin = max((match.end() for match in _CLAUSE_END.finditer(reply.text, 0, reply.heard_chars)), default=0)
    return reply.text[begin:].strip() if reply.heard_text != reply.text.strip() else ""


def _said(step: Step, reply: Reply) -> str:
    text = reply.heard_text if reply.phrase is None else phrase_text(reply.phrase, step.state.language)
    return text[-SAID_CHARS:] if reply.audible else step.state.last_said


def _usage(reply: Reply) -> dict[str, int] | None:
    if reply.usage is None:
        return None
    return {
        "prompt_tokens": reply.usage.prompt_tokens,
        "cached_tokens": reply.usage.cached_tokens,
        "completion_tokens": reply.usage.completion_tokens,
    }


def _tell_timings(step: Step) -> None:
    """Once per answer that was heard."""
    reply = step.state.reply
    assert reply is not None
    begun = reply.audible or (reply.silent and bool(reply.text))
    if reply.traced or not begun or reply.phrase is not None or reply.trace.requested is None:
        return
    step.change_reply(traced=True)
    last_user = next((item.id for item in reversed(step.state.history) if item.role == "user"), None)
    step.tell(
        "parley.turn",
        item_id=last_user,
        response_id=reply.id,
        timings_ms=reply.trace.timings_ms(),
        spans_ms=reply.trace.spans_ms(),
        early={"ms": round(reply.early_s * 1000.0, 1), "wasted_tokens": reply.wasted_tokens},
        usage=_usage(reply),
    )
