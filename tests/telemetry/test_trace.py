"""What a turn's waterfall is drawn from."""

from __future__ import annotations

from app.telemetry.trace import TurnTrace

SPOKEN = TurnTrace(
    speech_end=10.0,
    recognition_start=10.1,
    transcript=10.3,
    turn_end=10.2,
    requested=10.3,
    first_text=10.5,
    first_clause=10.6,
    first_sound=10.7,
    first_played=10.72,
    queue_ms=30.0,
    prefill_ms=120.0,
)


def test_spans_begin_at_the_end_of_speech_and_last_as_long_as_the_timings_say() -> None:
    spans = SPOKEN.spans_ms()
    assert list(spans) == [
        "endpoint",
        "asr",
        "queue",
        "prefill",
        "llm_first_token",
        "first_clause",
        "tts_first_audio",
        "playout",
    ]
    assert spans["endpoint"] == (0.0, 200.0)
    assert spans["queue"] == (300.0, 330.0)
    assert spans["prefill"] == (330.0, 450.0)
    for name, length in SPOKEN.timings_ms().items():
        if name != "voice_to_voice":
            assert round(spans[name][1] - spans[name][0], 1) == length


def test_a_typed_turn_counts_from_its_request_and_an_interrupted_one_has_no_queue() -> None:
    typed = TurnTrace(requested=5.0, first_text=5.25, first_clause=5.5)
    assert typed.spans_ms() == {"llm_first_token": (0.0, 250.0), "first_clause": (250.0, 500.0)}
    assert TurnTrace().spans_ms() == {}


def test_a_reply_begun_early_may_begin_before_the_turn_was_over() -> None:
    early = TurnTrace(speech_end=10.0, turn_end=10.8, requested=10.4, first_text=10.6)
    assert early.spans_ms() == {"endpoint": (0.0, 800.0), "llm_first_token": (400.0, 600.0)}
