"""The user speaks while the assistant does: an interruption, a listener's "mm-hm", a noise, or an echo?

The assistant is turned down at once. If the sound goes on it falls silent, without losing its place, and what has
been said so far is looked at; the words decide.
"""

from __future__ import annotations

from app.audio.frames import OUTPUT_RATE_HZ
from app.dialogue import answers, playback, replies, turns
from app.dialogue.commands import Duck, Hold, Preview
from app.dialogue.phrases import phrase_text
from app.dialogue.state import Reply, Timer, Utterance
from app.dialogue.step import Step
from app.dialogue.words.backchannel import is_backchannel
from app.dialogue.words.commands import asks_to_go_on, is_stop
from app.dialogue.words.echo import is_echo
from app.dialogue.words.plain import QUESTION_MARKS, plain

_LIKELY_S = 0.2
"""The voice detector takes at most this long to make up its mind."""
_SECOND_LOOK_S = 0.06
"""A pause between words is looked past this often, until the voice detector says that speech has stopped."""
_WORD_S = 0.15
"""What is heard in the first look should be a word and not half of one."""
_NEXT_LOOK_S = 0.3
_DISMISSED_LOOK_S = 0.6
"""A noise that goes on may still become speech."""
_DECISIVE_WORDS = 2
"""One word that is cut off may yet become a listener's."""
_ECHO_AFTER_S = 0.3
"""The first sound of an echo may come this long after the assistant has ended: loudspeaker, room and network are late."""
_ECHO_WORDS = 3
"""Once it has ended, fewer words than these in common are a choice between those that it offered."""
_ECHO_AHEAD_CHARS = 40
"""The text of a reply runs ahead of what is known to have been heard of it by up to a word or two."""
_ASKED_WITHIN_S = 1.0


def likely(step: Step) -> None:
    """It may become speech. Nothing is lost by being quieter for a moment, or by answering a moment later."""
    utterance, reply = step.state.utterance, step.state.reply
    if utterance is not None and utterance.speaking:
        return
    if utterance is None and reply is not None:
        step.do(Duck() if reply.audible else Hold())
    step.set_timer(Timer.LIKELY, _LIKELY_S)


def likely_no_more(step: Step) -> None:
    if step.state.utterance is None:
        playback.resume(step)
    else:
        turns.consider(step)


def begin(step: Step) -> None:
    """Speech has begun, or goes on, over the reply."""
    if step.state.manual:  # it was for this that the button was pressed
        interrupt(step)
        return
    step.do(Duck())
    step.change_utterance(overlapping=True)
    step.set_timer(Timer.BARGE_IN, step.state.limits.barge_in_s)


def look(step: Step, voiced: bool, at_sample: int) -> None:
    """It goes on: fall silent, and find out what it is."""
    utterance, reply = step.state.utterance, _audible_reply(step)
    if utterance is None or not utterance.speaking or not utterance.overlapping or reply is None:
        return
    if not voiced:  # it may have ended already
        step.set_timer(Timer.BARGE_IN, _SECOND_LOOK_S)
        return
    unknown_s = step.now - max(utterance.began, utterance.previewed_at)
    if unknown_s >= step.state.limits.barge_in_max_s:
        interrupt(step)  # whoever speaks for so long wants to be heard, and recognition is too slow to deny it
        return
    if not reply.held and not utterance.dismissed:
        playback.silence(step)
        step.set_timer(Timer.BARGE_IN, _WORD_S)
        return
    where = (utterance.id, len(utterance.texts), utterance.revision, utterance.start_sample, at_sample)
    step.do(Preview(*where, known="", urgent=True))
    step.set_timer(Timer.BARGE_IN, _DISMISSED_LOOK_S if utterance.dismissed else _NEXT_LOOK_S)


def pause(step: Step, utterance: Utterance) -> None:
    """It has ended, or pauses, before anybody knew what it was: silence until its words are known."""
    reply = _audible_reply(step)
    if utterance.overlapping and not utterance.dismissed and reply is not None and not reply.held:
        playback.silence(step)


def weigh(step: Step, utterance: Utterance, words: str) -> None:
    """What has been said so far, while it goes on. No verdict: the next look, or the end of speech, brings one."""
    if not words or _is_echo(step, utterance, words):
        if not utterance.dismissed:
            step.change_utterance(dismissed=True)
            playback.unsilence(step)  # quietly: it goes on
    elif is_stop(words) or (len(plain(words)) >= _DECISIVE_WORDS and not _is_listening(words)):
        interrupt(step)


def interrupt(step: Step) -> None:
    """The user wants to speak: let them."""
    replies.interrupt(step)
    step.change_utterance(overlapping=False, interrupted=True)
    answers.draft(step)
    turns.expect_partial(step)


def not_recognised(step: Step, utterance: Utterance) -> None:
    """Nobody knows what was said. If it was no mere noise by its length, it was meant to interrupt."""
    spoken_s = (utterance.trace.speech_end or step.now) - utterance.began
    if utterance.overlapping and not utterance.dismissed and spoken_s >= step.state.limits.barge_in_s:
        replies.interrupt(step)


def is_for_us(step: Step, utterance: Utterance, words: str) -> bool:
    """All that was said is known: whether it is a turn. If not it is discarded, and the assistant speaks on."""
    if _is_echo(step, utterance, words):
        turns.discard(step, utterance, "echo", "It was the assistant's own voice.")
        return False
    listening = is_backchannel(words) or (_audible_reply(step) is not None and asks_to_go_on(words))
    if utterance.overlapping and listening and not _asked(step):
        tell_backchannel(step, utterance, words)
        return False
    if utterance.overlapping:
        interrupted = _audible_reply(step) is not None
        if interrupted:
            replies.interrupt(step)
        step.change_utterance(overlapping=False, interrupted=interrupted)
    return True


def _is_listening(words: str) -> bool:
    """ "Mm-hm", or even "go on"."""
    return is_backchannel(words) or asks_to_go_on(words)


def tell_backchannel(step: Step, utterance: Utterance, words: str) -> None:
    """A listener's sign of life is no turn."""
    turns.forget(step)
    if utterance.reopened:
        turns.tell_completed(step, utterance)
    else:
        step.tell("parley.backchannel", item_id=utterance.id, transcript=words)
    playback.resume(step)


def _audible_reply(step: Step) -> Reply | None:
    reply = step.state.reply
    return reply if reply is not None and reply.audible else None


def _is_echo(step: Step, utterance: Utterance, words: str) -> bool:
    state, reply = step.state, _audible_reply(step)
    said = state.last_said if utterance.began - state.last_said_at < _ECHO_AFTER_S else ""
    if reply is not None:
        text = reply.text[: reply.heard_chars + _ECHO_AHEAD_CHARS]
        if reply.phrase is not None:  # known to the word, so it is not heard as a question that asks for its own words
            text = phrase_text(reply.phrase, state.language).rstrip("?？")
        said = f"{said} {text}"
    enough = utterance.overlapping or len(plain(words)) >= min(_ECHO_WORDS, len(plain(said)))
    return bool(said.strip()) and enough and is_echo(words, said)


def _asked(step: Step) -> bool:
    """Whether the assistant has just asked something, so that a "yeah" over its last words is an answer."""
    reply = _audible_reply(step)
    if reply is None:
        return step.state.last_said.rstrip().endswith(QUESTION_MARKS)
    if reply.phrase is not None:
        return phrase_text(reply.phrase, step.state.language).endswith(QUESTION_MARKS)
    left_s = (reply.queued_samples - reply.played_samples) / OUTPUT_RATE_HZ
    return reply.text_ended and reply.text.rstrip().endswith(QUESTION_MARKS) and left_s < _ASKED_WITHIN_S
