"""What a client may ask of its session, and what it is told when it may not."""

from __future__ import annotations

from typing import Any

import pytest

from app.config import Settings
from app.dialogue.options import SessionOptions, parse_options
from app.errors import InvalidRequest
from tests.kit.script import FakeLanguageModel, FakeRecognizer, FakeVoice, Script
from tests.kit.virtual_time import run_virtual

VOICES = ("one", "two")
OPEN = Settings.model_validate({"server": {"client_instructions": True}})


def test_every_option_is_taken_over_and_what_is_not_named_stays() -> None:
    given = {
        "type": "realtime",
        "instructions": "Be brief.",
        "output_modalities": ["text"],
        "audio": {
            "input": {"turn_detection": None, "transcription": {"language": "DE"}},
            "output": {"voice": "two", "speed": 1.5},
        },
    }
    options = parse_options(given, OPEN, VOICES)
    assert options == SessionOptions("Be brief.", "two", 1.5, "de", "manual", False)
    assert parse_options({}, OPEN, VOICES, options) == options
    changed = parse_options({"audio": {"output": {"voice": ""}}}, OPEN, VOICES, options)
    assert changed == SessionOptions("Be brief.", "", 1.5, "de", "manual", False)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "session must be an object"),
        ([], "session must be an object"),
        ({"type": "transcription"}, r"session\.type"),
        ({"voice": "two"}, r"session\.voice is unknown; known are audio"),
        ({"output_modalities": ["audio", "text"]}, "output_modalities must be"),
        ({"audio": 3}, r"session\.audio must be"),
        ({"audio": {"input": {"turn_detection": {"type": "loud"}}}}, "semantic_vad"),
        ({"audio": {"input": {"transcription": {"language": "English"}}}}, "language must be a code"),
        ({"audio": {"input": {"transcription": {"language": 3}}}}, "language must be a code"),
        ({"audio": {"input": {"transcription": {"language": "?!"}}}}, "language must be a code"),
        ({"audio": {"output": {"voice": "three"}}}, "there are one, two"),
        ({"audio": {"output": {"voice": ["one"]}}}, "there are one, two"),
        ({"audio": {"output": {"speed": 3}}}, r"from 0\.5 to 2"),
        ({"audio": {"output": {"speed": True}}}, r"from 0\.5 to 2"),
        ({"audio": {"output": {"speed": float("nan")}}}, r"from 0\.5 to 2"),
        ({"instructions": "x" * 9000}, "at most 8000"),
        ({"instructions": 3}, "at most 8000"),
    ],
)
def test_what_is_wrong_is_named(given: Any, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        parse_options(given, OPEN, VOICES)


def test_only_a_language_that_recognition_knows_may_be_spoken() -> None:
    def asked(language: str) -> SessionOptions:
        given = {"audio": {"input": {"transcription": {"language": language}}}}
        return parse_options(given, OPEN, VOICES, languages=("de", "fr"))

    assert [asked(code).language for code in ("de", "en", "auto", "")] == ["de", "en", "auto", ""]
    with pytest.raises(InvalidRequest, match=r"not understood here; there are de, en, fr \(asr\.languages\)"):
        asked("zz")


def test_instructions_are_the_servers_unless_it_says_otherwise() -> None:
    with pytest.raises(InvalidRequest, match=r"server\.client_instructions"):
        parse_options({"instructions": "Obey."}, Settings(), VOICES)


def test_a_session_speaks_and_thinks_as_its_options_say() -> None:
    async def conversation() -> None:
        voice, llm = FakeVoice(), FakeLanguageModel(replies=[["Yes."], ["No."]])
        options = SessionOptions(instructions="Be a pirate.", voice="two", speed=1.5)
        asr = FakeRecognizer(["one", "two"])
        server = {"client_instructions": True}
        async with Script(asr=asr, llm=llm, tts=voice, options=options, server=server) as script:
            created = script.told("session.created")[0]["session"]
            assert (created["voice"], created["speed"], created["resumed"]) == ("two", 1.5, False)
            await script.speak(0.6)
            await script.until(lambda: len(script.history) == 2)
            assert llm.requests[-1].messages[0].content == "Be a pirate."
            assert voice.manners[-1] == ("two", 1.5)
            update = {"instructions": "Be a cook.", "audio": {"output": {"voice": "one"}}}
            script.session.receive({"type": "session.update", "session": update})
            assert script.told("session.updated")[0]["session"]["voice"] == "one"
            await script.speak(0.6)
            await script.until(lambda: len(script.history) == 4)
            assert llm.requests[-1].messages[0].content == "Be a cook."
            assert voice.manners[-1] == ("one", 1.5)
            script.session.receive({"type": "session.update", "session": {"audio": {"output": {"voice": "none"}}}})
            assert "there are one, two" in script.told("error")[0]["error"]["message"]

    run_virtual(conversation())


@pytest.mark.parametrize("allowed", [True, False])
def test_a_recording_needs_the_servers_word_too(allowed: bool) -> None:
    async def conversation() -> None:
        async with Script(server={"recording": allowed}) as script:
            script.session.receive({"type": "parley.recording", "on": True})
            assert [event["on"] for event in script.told("parley.recording")] == ([True] if allowed else [])
            assert bool(script.told("error")) is not allowed
            script.session.receive({"type": "parley.recording", "on": "yes"})
            assert "on must be true or false" in script.told("error")[-1]["error"]["message"]

    run_virtual(conversation())
