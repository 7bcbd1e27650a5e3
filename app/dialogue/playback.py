"""How queued sound is kept back and let go again."""

from __future__ import annotations

from app.dialogue.commands import Hold, Release, Unduck
from app.dialogue.state import Timer
from app.dialogue.step import Step


def silence(step: Step) -> None:
    """Stop in the middle of a word, to go on from there or not at all."""
    step.do(Hold())
    step.change_reply(held=True)
    step.clear_timers(Timer.PLAYBACK)


def unsilence(step: Step) -> None:
    """Go on from the same sample, as loud as it was."""
    reply = step.state.reply
    if reply is not None and reply.held and not step.state.left:
        step.do(Release())
        step.change_reply(held=False)
        expect(step)


def resume(step: Step) -> None:
    """The user said nothing after all: go on from the same sample, at full volume."""
    reply = step.state.reply
    if reply is None or step.state.left:
        return
    unsilence(step)
    if reply.audible:
        step.do(Unduck())
    elif not step.state.holding:
        step.do(Release())
    expect(step)


def expect(step: Step) -> None:
    """Sound that is queued and not held back must be taken by the transport soon."""
    reply = step.state.reply
    if reply is not None and reply.pending_sound and not step.state.holding and not reply.held:
        limits = step.state.limits
        connect_s = limits.connect_timeout_s if step.state.connecting else 0.0
        step.set_timer(Timer.PLAYBACK, connect_s + limits.playback_timeout_s)
