"""What the terminal shows of a conversation."""

from __future__ import annotations

import pytest

from app.cli.conversation_lines import ConversationLines
from app.cli.view import PlainView


def _reply(lines: ConversationLines, said: str, heard: str, status: str) -> list[str]:
    ids = {"response_id": "r", "item_id": "i"}
    shown = lines.feed({"type": "response.output_audio_transcript.delta", **ids, "delta": said})
    shown += lines.feed({"type": "response.output_audio_transcript.done", **ids, "transcript": heard})
    return shown + lines.feed({"type": "response.done", "response": {"id": "r", "status": status}})


def test_a_reply_is_shown_once_it_was_heard() -> None:
    assert _reply(ConversationLines(), "It is noon.", "It is noon.", "completed") == ["Parley: It is noon."]


def test_an_interrupted_reply_shows_what_was_heard_and_what_was_not() -> None:
    shown = _reply(ConversationLines(), "It is noon. Would you like lunch?", "It is noon.", "cancelled")
    assert shown == ["Parley: It is noon. — interrupted, unheard: Would you like lunch?"]


def test_a_failed_reply_of_which_nothing_was_heard_says_so() -> None:
    assert _reply(ConversationLines(), "It is", "", "failed") == ["Parley: — broke off, unheard: It is"]


def test_state_transcript_latency_notice_and_error_are_one_line_each() -> None:
    lines = ConversationLines()
    assert lines.feed({"type": "parley.state", "state": "hearing"}) == ["· hearing you"]
    user = {"type": "conversation.item.input_audio_transcription.completed", "transcript": " What time is it?"}
    assert lines.feed(user) == ["You:    What time is it?"]
    turn = {"type": "parley.turn", "timings_ms": {"endpoint": 210.4, "asr": 90.0, "voice_to_voice": 640.2}}
    assert lines.feed(turn) == ["        answered after 640 ms (end of turn 210, recognition 90)"]
    assert lines.feed({"type": "parley.notice", "code": "x", "text": "Sorry."}) == ["! Sorry."]
    assert lines.feed({"type": "error", "error": {"message": "too long"}}) == ["! error: too long"]
    context = {"type": "parley.context", "turns": 4, "summary": "", "complete": False}
    assert lines.feed(context) == ["· a long conversation: the model sees the first 4 turns no longer, or only in part"]


def test_events_that_say_nothing_to_a_reader_show_nothing() -> None:
    lines = ConversationLines()
    assert lines.feed({"type": "session.created", "session": {}}) == []
    assert lines.feed({"type": "parley.heard", "response_id": "r", "item_id": "i", "chars": 3}) == []


def test_a_key_pressed_over_silence_says_that_nothing_was_heard() -> None:
    (line,) = ConversationLines().feed({"type": "input_audio_buffer.committed", "item_id": None})
    assert "--list-devices" in line
    assert ConversationLines().feed({"type": "input_audio_buffer.committed", "item_id": "i"}) == []


def test_a_silent_answer_is_shown_and_one_that_comes_again_stands_there_once() -> None:
    lines = ConversationLines()
    for _ in range(2):
        lines.feed({"type": "response.created", "response": {"id": "r", "status": "in_progress"}})
        lines.feed({"type": "response.output_text.delta", "response_id": "r", "delta": "Paris."})
    lines.feed({"type": "response.output_text.done", "response_id": "r", "text": "Paris."})
    assert lines.feed({"type": "response.done", "response": {"id": "r", "status": "completed"}}) == ["Parley: Paris."]


def test_a_typed_turn_tells_when_its_answer_began_and_one_without_a_number_nothing() -> None:
    lines, typed = ConversationLines(), {"first_clause": 300.0}
    spoken = {"llm_first_token": [0.0, 210.0], "playout": [700.0, 710.4]}
    assert lines.feed({"type": "parley.turn", "timings_ms": typed, "spans_ms": spoken}) == [
        "        first sound after 710 ms (first clause 300)"
    ]
    silent = {"type": "parley.turn", "timings_ms": {}, "spans_ms": {"llm_first_token": [0.0, 210.0]}}
    assert lines.feed(silent) == ["        first word after 210 ms"]
    assert lines.feed({"type": "parley.turn", "timings_ms": {}, "spans_ms": {}}) == []


def test_a_turn_is_one_line_however_many_paragraphs_it_has() -> None:
    said = "One.\n\nTwo.  Three."
    assert _reply(ConversationLines(), said, said, "completed") == ["Parley: One. Two. Three."]
    assert _reply(ConversationLines(), said, "One.", "cancelled") == [
        "Parley: One. — interrupted, unheard: Two. Three."
    ]


def test_an_end_is_told_unless_it_was_made_here() -> None:
    lines = ConversationLines()
    assert lines.feed({"type": "parley.closed", "reason": "microphone closed"}) == []
    assert lines.feed({"type": "parley.closed", "reason": "goodbye"}) == ["· ended: goodbye"]


def test_a_pipe_gets_the_conversation_and_standard_error_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainView()
    view.say("Microphone: none")
    view.event({"type": "parley.state", "state": "thinking"})
    view.event({"type": "conversation.item.input_audio_transcription.completed", "transcript": "Hello"})
    assert capsys.readouterr() == ("You:    Hello\n", "Microphone: none\n· thinking\n")
