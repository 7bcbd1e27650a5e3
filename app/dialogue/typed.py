"""What the user writes instead of saying it."""

from __future__ import annotations

from app.dialogue import answers, remembering, replies, turns
from app.dialogue.events import AnswerRequested, TypedText
from app.dialogue.state import Item
from app.dialogue.step import Step
from app.telemetry.trace import TurnTrace

_UNANSWERED = 64
"""Messages that may be written before an answer is asked for."""


def typed(step: Step, event: TypedText) -> None:
    if event.pinned and not remembering.may_pin(step.state, event.text):
        message = "Pinned messages may take half of the room for prompts (llm.context_tokens): this one is too long."
        step.tell("error", error={"type": "invalid_request_error", "code": "invalid_request", "message": message})
        return
    if len(step.state.typed) >= _UNANSWERED:
        message = f"{_UNANSWERED} messages wait to be answered: send response.create first."
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


def answer_requested(step: Step, event: AnswerRequested) -> None:
    state = step.state
    unanswered = bool(state.history) and state.history[-1].role == "user" and state.reply is None
    if not state.typed and not unanswered:
        message = "There is nothing to answer: send conversation.item.create first."
        step.tell("error", error={"type": "invalid_request_error", "code": "invalid_request", "message": message})
        return
    replies.interrupt(step)
    words = " ".join(item.text for item in step.state.typed)
    turns.add_user_items(step, *step.state.typed)
    step.change(typed=())
    spoken = step.state.spoken if event.spoken is None else event.spoken
    answers.begin_answer(step, TurnTrace(), words=words, silent=not spoken)
