"""What was said so far, from events."""

from __future__ import annotations

from typing import Any

import pytest

from app.cli.transcript import Latency, Transcript, printable

_SAID = "conversation.item.input_audio_transcription"


def fed(*events: dict[str, Any]) -> Transcript:
    transcript = Transcript()
    for event in events:
        transcript.feed(event)
    return transcript


def reply(*parts: dict[str, Any], status: str = "completed") -> list[dict[str, Any]]:
    return [
        {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
        *parts,
        {"type": "response.done", "response": {"id": "r", "status": status}},
    ]


def delta(text: str) -> dict[str, Any]:
    return {"type": "response.output_audio_transcript.delta", "response_id": "r", "delta": text}


def heard(chars: int) -> dict[str, Any]:
    return {"type": "parley.heard", "response_id": "r", "chars": chars}


def test_words_of_the_user_come_while_they_speak_and_are_replaced_by_the_whole_transcript() -> None:
    partial = {"type": f"{_SAID}.delta", "item_id": "i", "delta": "what is"}
    transcript = fed(partial)
    assert [(line.text, line.over) for line in transcript.lines] == [("what is", False)]
    transcript.feed({"type": f"{_SAID}.completed", "item_id": "i", "transcript": " What is it? "})
    assert [(line.text, line.over) for line in transcript.lines] == [("What is it?", True)]


def test_a_reply_that_was_interrupted_tells_what_was_never_heard() -> None:
    (line,) = fed(*reply(delta("One two. "), delta("Three four."), heard(9), status="cancelled")).lines
    assert line.unheard == "Three four."


def test_a_reply_that_was_heard_to_its_end_leaves_nothing() -> None:
    (line,) = fed(*reply(delta("One two."), heard(3))).lines
    assert line.unheard == ""


def test_a_reply_that_comes_again_after_a_reconnection_stands_there_once() -> None:
    whole = [delta("One two. "), heard(4), reply()[0], delta("One two. Three."), heard(4)]
    (line,) = fed(reply()[0], *whole).lines
    assert (line.text, line.heard) == ("One two. Three.", 4)


def test_a_silent_reply_counts_as_read() -> None:
    text = {"type": "response.output_text.delta", "response_id": "r", "delta": "Paris."}
    (line,) = fed(*reply(text)).lines
    assert (line.text, line.unheard) == ("Paris.", "")


@pytest.mark.parametrize("code", ["no_words", "echo"])
def test_noise_and_echo_leave_no_line(code: str) -> None:
    partial = {"type": f"{_SAID}.delta", "item_id": "i", "delta": "hm"}
    assert not fed(partial, {"type": f"{_SAID}.failed", "item_id": "i", "error": {"code": code}}).lines


def test_latency_knows_the_last_turn_and_the_percentiles() -> None:
    latency = Latency()
    for ms in (500.0, 700.0, 600.0):
        latency.add(("answered after", ms))
    assert (latency.last_ms, latency.turns, latency.percentile(50)) == (600.0, 3, 600.0)
    assert latency.percentile(95) == pytest.approx(690.0)


def test_what_a_terminal_would_obey_becomes_a_space_and_every_character_keeps_its_place() -> None:
    said = {"type": "x", "delta": "a\x1b[2J\nb\u202e你", "parts": [{"text": "\x07"}], "chars": 3}
    assert printable(said) == {"type": "x", "delta": "a [2J b 你", "parts": [{"text": " "}], "chars": 3}
