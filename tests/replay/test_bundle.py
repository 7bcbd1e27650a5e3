"""A saved turn is read as it was written, and nothing else is taken for one."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.audio import read_wav
from app.cli.main import main
from app.config import Settings
from app.errors import InvalidRequest
from app.replay.bundle import read_bundle
from app.replay.course import saved_course
from app.replay.settings import settings_for
from app.telemetry.turns.bundle import FORMAT
from app.telemetry.turns.config import open_settings
from tests.kit.saved import read, save
from tests.kit.script import FakeLanguageModel, FakeRecognizer, Script

SECRETS = {
    "llm": {
        "backend": "openai",
        "base_url": "http://me:S3CRET@host/v1",
        "api_key": "S3CRET",
        "model": "/home/S3CRET/m.gguf",
    },
    "asr": {"base_url": "http://host/S3CRET", "api_key": "S3CRET"},
    "tts": {"base_url": "http://host/S3CRET", "api_key": "S3CRET"},
    "server": {
        "token": "S3CRET",
        "api_keys": ["S3CRET"],
        "ice_servers": ["turn:user:S3CRET@host:3478"],
        "allowed_origins": ["https://S3CRET.example"],
        "certificate": "/etc/S3CRET.pem",
        "private_key": "/etc/S3CRET.key",
        "client_instructions": True,
    },
    "runtime": {"model_store": "/srv/S3CRET"},
}
INSTRUCTIONS = "You are a pirate."


async def one_turn(script: Script) -> None:
    """With all that a client may send that is nobody's business."""
    script.session.receive({"type": "session.update", "session": {"instructions": INSTRUCTIONS}})
    await script.speak(1.0)
    await script.until_event("response.done")


def saved_turn(**sections: Any) -> tuple[bytes, str]:
    """A turn's file, and the token of its session."""
    world = {"asr": FakeRecognizer(["how are you"]), "llm": FakeLanguageModel([["I am fine."]])}
    saved = save(one_turn, **world, **{f"{name}_": values for name, values in sections.items()})
    return saved.turns[0], saved.token


@pytest.fixture(scope="module")
def turn() -> bytes:
    return saved_turn()[0]


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(parts: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_what_was_said_and_answered_is_read_as_it_was_written(turn: bytes, tmp_path: Path) -> None:
    saved = read(turn, tmp_path)
    assert saved.facts.format == FORMAT
    assert {call.stage for call in saved.calls} == {"asr", "turn", "llm", "tts"}
    assert np.unique(saved.heard).tolist() == [0, 5000]
    assert np.count_nonzero(saved.heard) == 16_000
    assert np.count_nonzero(saved.said) == len(saved.voice) == len("I am fine.") * 40 * 48
    assert [event.at_s for event in saved.events] == sorted(event.at_s for event in saved.events)
    told = json.loads(members(turn)["turn.json"])
    assert (told["user"], told["reply"], told["status"]) == ("how are you", "I am fine.", "completed")
    assert told["spans_ms"]["endpoint"][0] == 0.0


def test_no_secret_of_the_server_or_of_the_session_is_in_it() -> None:
    content, token = saved_turn(**SECRETS)
    for name, member in members(content).items():
        assert b"S3CRET" not in member, name
        assert token.encode() not in member, name
    assert INSTRUCTIONS.encode() in members(content)["turn.json"]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.done"},
        {"type": "response.output_text.done", "response_id": "item_2"},
        {"type": "conversation.item.input_audio_transcription.completed"},
        {"type": "parley.turn", "response_id": "item_2", "timings_ms": "\ud800"},
        {"type": "response.cancel", "why": [float("nan"), {"more": float("-inf")}]},
    ],
)
def test_whatever_a_client_sent_the_turn_is_saved_and_tells_what_the_server_said(
    event: dict[str, Any], tmp_path: Path
) -> None:
    async def talk(script: Script) -> None:
        script.session.receive(event)
        await one_turn(script)

    world = {"asr": FakeRecognizer(["how are you"]), "llm": FakeLanguageModel([["I am fine."]])}
    (content,) = save(talk, **world, server={"client_instructions": True}).turns
    assert read(content, tmp_path).events
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        facts = json.loads(archive.read("turn.json"))
    assert (facts["user"], facts["reply"], facts["status"]) == ("how are you", "I am fine.", "completed")


def test_every_setting_is_known_to_be_told_or_not() -> None:
    """Whoever adds a setting decides here whether a saved turn, which goes to strangers, may tell it."""
    told = open_settings(Settings())
    assert "server" not in told
    texts = {
        f"{section}.{key}"
        for section, values in told.items()
        for key, value in values.items()
        if isinstance(value, str | list)
    }
    assert texts == {
        "assistant.system_prompt",
        "assistant.language",
        "assistant.greeting",
        "assistant.farewell",
        "llm.backend",
        "llm.model",
        "llm.device",
        "llm.quantization",
        "llm.runner",
        "asr.backend",
        "asr.model",
        "asr.device",
        "asr.compute_type",
        "asr.languages",
        "tts.backend",
        "tts.model",
        "tts.voice",
        "tts.device",
        "turn.backend",
        "turn.model",
        "audio.input_device",
        "audio.output_device",
        "audio.wake_word",
        "runtime.log_level",
    }


def without(name: str) -> Callable[[dict[str, bytes]], None]:
    return lambda parts: parts.__delitem__(name)


def put(name: str, content: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda parts: parts.__setitem__(name, content)


def changed(name: str, **fields: Any) -> Callable[[dict[str, bytes]], None]:
    def change(parts: dict[str, bytes]) -> None:
        parts[name] = json.dumps(json.loads(parts[name]) | fields).encode()

    return change


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (without("stages.json"), "stages.json is missing"),
        (without("in.flac"), "in.flac is missing"),
        (put("../evil.json", b"{}"), "there are no folders in one"),
        (put("sub/in.flac", b""), "there are no folders in one"),
        (put("turn.json", b"{"), "turn.json is not valid JSON"),
        (put("turn.json", b'{"format": 1, "done_s": NaN}'), "NaN is no number"),
        (put("turn.json", b'{"format": 1, "done_s": 1e999}'), "turn.json"),
        (put("turn.json", b"[" * 100_000), "turn.json is not valid JSON"),
        (put("turn.json", b"\xff\xfe"), "turn.json is no text"),
        (put("turn.json", b"[]"), "its format is None"),
        (changed("turn.json", format=99), "its format is 99, and this Parley (reads 1) is older or newer"),
        (changed("turn.json", response_id=7), "turn.json: response_id"),
        (changed("turn.json", sound={}), "turn.json says nothing of in.flac"),
        (changed("turn.json", options={"speed": 99}), "turn.json: options.speed"),
        (put("in.flac", b"not sound"), "in.flac is no sound that can be read"),
        (put("events.jsonl", b'{"at_s": 0, "from": "server", "event": {}}'), "an event has no type"),
        (put("events.jsonl", b'{"at_s": 0, "from": "mars", "event": {"type": "x"}}'), "events.jsonl"),
        (put("stages.json", b"[]"), "do not agree"),
        (put("stages.json", b'[{"stage": "tts", "at_s": 0, "asked": {}, "answers": [[0, -5]]}]'), "do not agree"),
        (put("config.json", b"[]"), "config.json is no object"),
        (put("config.json", b" " * (33 << 20)), "config.json unpacks to more than 32 MiB"),
    ],
)
def test_what_is_no_saved_turn_is_one_clear_error(
    turn: bytes, tmp_path: Path, spoil: Callable[[dict[str, bytes]], None], told: str
) -> None:
    parts = members(turn)
    spoil(parts)
    with pytest.raises(InvalidRequest) as raised:
        read(zipped(parts), tmp_path)
    assert told in str(raised.value)
    assert "turn.zip is not a saved turn" in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"no zip at all", b"PK\x03\x04" + b"\x00" * 200])
def test_what_is_no_zip_file_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InvalidRequest, match="it is no zip file"):
        read(content, tmp_path)


def test_a_damaged_file_is_one_clear_error_wherever_it_is_damaged(turn: bytes, tmp_path: Path) -> None:
    for place in range(0, len(turn), max(1, len(turn) // 60)):
        spoiled = turn[:place] + bytes([turn[place] ^ 0x5A]) + turn[place + 1 :]
        try:
            read(spoiled, tmp_path)
        except InvalidRequest as error:
            assert "turn.zip" in str(error)  # noqa: PT017 - some places do no harm


def test_the_command_line_says_what_is_wrong_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(tmp_path / "missing.zip")]) == 2
    assert main(["replay", str(tmp_path), "--stages", "recorded"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "missing.zip cannot be read: No such file or directory." in lines[0]


def test_an_event_that_cannot_be_is_one_clear_error(turn: bytes, tmp_path: Path) -> None:
    parts = members(turn)
    turn_event = {"type": "parley.turn", "response_id": json.loads(parts["turn.json"])["response_id"]}
    for event in (
        {"type": "response.done"},
        {**turn_event, "spans_ms": 7},
        {**turn_event, "spans_ms": {"asr": [0, 1e300]}},
        {**turn_event, "timings_ms": {"asr": "soon"}},
        {**turn_event, "timings_ms": None},
        {**turn_event, "usage": [1]},
    ):
        parts["events.jsonl"] = json.dumps({"at_s": 0, "from": "server", "event": event}).encode()
        saved = read(zipped(parts), tmp_path)
        with pytest.raises(InvalidRequest, match="an event that cannot be"):
            saved_course(saved)


def test_a_saved_turn_brings_its_manner_and_what_is_given_for_the_run_stays(tmp_path: Path) -> None:
    content, _ = saved_turn(turn={"max_wait_ms": 900, "look_ms": 300}, llm={"temperature": 1.5, "max_tokens": 7})
    saved, own = read(content, tmp_path), Settings()
    used = settings_for(saved, own, recorded=False, own_config=False, given=["turn.look_ms"])
    assert (used.turn.max_wait_ms, used.turn.look_ms) == (900, own.turn.look_ms)
    assert (used.llm.temperature, used.llm.max_tokens) == (own.llm.temperature, own.llm.max_tokens)
    assert settings_for(saved, own, recorded=False, own_config=True).turn == own.turn
    assert settings_for(saved, own, recorded=True, own_config=False).llm.max_tokens == 7


def test_settings_that_cannot_be_are_one_clear_error(turn: bytes, tmp_path: Path) -> None:
    parts = members(turn)
    for config in ({"turn": {"max_wait_ms": -5}}, {"vad": 7}):
        parts["config.json"] = json.dumps(config).encode()
        with pytest.raises(InvalidRequest, match=r"config\.json"):
            settings_for(read(zipped(parts), tmp_path), Settings(), recorded=True, own_config=False)


def test_the_command_runs_a_typed_turn_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def talk(script: Script) -> None:
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
        script.session.receive({"type": "conversation.item.create", "item": item})
        script.session.receive({"type": "response.create"})
        await script.until_event("response.done")

    path, sound = tmp_path / "typed.zip", tmp_path / "reply.wav"
    path.write_bytes(save(talk, llm=FakeLanguageModel([["Hello to you."]])).turns[0])
    assert main(["replay", str(path), "--stages", "recorded", "--json", "--out", str(sound)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["same"]
    assert result["now"]["reply"] == result["then"]["reply"] == "Hello to you."
    assert read_wav(sound, 48_000).any()
    assert main(["replay", str(path), "--stages", "recorded"]) == 0
    shown = capsys.readouterr().out
    assert "You:    hello\nParley: Hello to you." in shown
    assert "It went the same." in shown


@pytest.mark.parametrize(
    ("stage", "answer", "told"),
    [
        ("asr", "words", "no transcript"),
        ("llm", {"text": 5}, "neither text nor the end of one"),
        ("turn", "yes", "not between 0 and 1"),
    ],
)
def test_an_answer_that_no_stage_gives_is_one_clear_error_before_anything_runs(
    turn: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str], stage: str, answer: object, told: str
) -> None:
    parts = members(turn)
    calls = json.loads(parts["stages.json"])
    calls.append({"stage": stage, "at_s": 0.0, "asked": {}, "answers": [[0.1, answer]], "ending": "done"})
    parts["stages.json"] = json.dumps(calls).encode()
    (tmp_path / "turn.zip").write_bytes(zipped(parts))
    assert main(["replay", str(tmp_path / "turn.zip"), "--stages", "recorded"]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("parley:")]
    assert told in line


def test_a_setting_beyond_reason_is_one_clear_error(turn: bytes, tmp_path: Path, settings: Settings) -> None:
    parts = members(turn)
    config = json.loads(parts["config.json"])
    config["turn"]["max_wait_ms"] = 10**30
    parts["config.json"] = json.dumps(config).encode()
    with pytest.raises(InvalidRequest, match=r"turn\.max_wait_ms is 1e\+30"):
        settings_for(read(zipped(parts), tmp_path), settings, recorded=True, own_config=False)


def test_what_a_file_says_does_not_move_the_cursor(
    turn: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = members(turn)
    changed("turn.json", saved_at="2026\x1b[2J", parley="\x1b]0;mine\x07")(parts)
    parts["stages.json"] = parts["stages.json"].replace(b"how are you", b"how \\u001b[2J are you")
    (tmp_path / "turn.zip").write_bytes(zipped(parts))
    main(["replay", str(tmp_path / "turn.zip"), "--stages", "recorded"])
    said = capsys.readouterr().out
    assert "Saved 2026" in said
    assert not {"\x1b", "\x07"} & set(said)


@pytest.mark.parametrize("place", ["", "no/such/folder/reply.wav"])
def test_where_nothing_can_be_written_is_told_before_the_work(
    turn: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    (tmp_path / "turn.zip").write_bytes(turn)
    for command in (["replay", str(tmp_path / "turn.zip")], ["talk", "--text", "Hello"]):
        assert main([*command, "--out", str(tmp_path / place)]) == 2
        assert "--out" in capsys.readouterr().err


def test_a_member_that_is_there_twice_is_refused(turn: bytes, tmp_path: Path) -> None:
    buffer = io.BytesIO(turn)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("turn.json", b"{}")
    (tmp_path / "twice.zip").write_bytes(buffer.getvalue())
    with pytest.raises(InvalidRequest, match="twice"):
        read_bundle(tmp_path / "twice.zip")
