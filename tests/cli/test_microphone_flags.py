"""Flags of ``python -m app`` that need no sound."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.catalog import Store
from app.cli import first_run, remote
from app.cli.main import main
from app.cli.microphone import _options, _sessions, _Wanted, for_one_microphone
from app.cli.talking import Manner
from app.client import Certificate, ClientError, ServerAddress, UntrustedCertificate
from app.config import Settings
from app.errors import ConfigError
from app.transports.microphone import WakeWord


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app", *flags]
    return subprocess.run(command, input="", capture_output=True, text=True, timeout=60, env=dict(os.environ))


def test_the_wake_words_are_listed() -> None:
    done = run("--wake-word", "help")
    assert done.returncode == 0
    assert "hey jarvis" in done.stdout.splitlines()


def test_push_to_talk_without_a_terminal_says_what_it_needs() -> None:
    done = run("--push-to-talk")
    assert done.returncode == 2
    assert "needs a terminal" in done.stderr


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--insecure"], "--insecure is for a Parley elsewhere"),
        (["--token", "x"], "--token is for a Parley elsewhere"),
        (["--server", ""], "--server ''"),
        (["--server", "ftp://host"], "ftp:// is not a web address"),
        (["--server", "http://host", "--insecure"], "--insecure: http://host:80 shows no certificate"),
        (["--server", "host", "--llm", "x"], "llm.model"),
        (["--server", "host", "--set", "llm.max_tokens=9"], "--set llm.max_tokens: the server has its own"),
        (["--text", "--input-device", "x"], "--input-device: with --text nobody listens"),
        (["--device", "a", "--input-device", "b", "--output-device", "c"], "--device: --input-device"),
        (["--set", "audio.push_to_talk=true", "--set", "audio.wake_word=hey jarvis"], "choose one of them"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_had_together_is_refused_by_name_before_anything_begins(
    flags: list[str], named: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.cli.microphone.reach_sound_system", lambda: pytest.fail("it began"))
    assert main(flags) == 2
    assert named in capsys.readouterr().err


def test_a_colour_that_is_forced_makes_no_terminal_of_a_pipe() -> None:
    code = (
        "from app.cli import microphone; microphone.has_terminal = lambda: True; print(microphone._can_show_picture())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "FORCE_COLOR": "1"}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "False\n", done.stderr


def test_a_server_that_is_not_there_is_named_and_torch_is_not_loaded_for_it() -> None:
    code = (
        "import sys; from app.cli.main import main;"
        "status = main(['--server', 'http://127.0.0.1:9', '--text']);"
        "sys.exit(99 if 'torch' in sys.modules or 'app.wiring' in sys.modules else status)"
    )
    done = subprocess.run([sys.executable, "-c", code], input="", capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "http://127.0.0.1:9 cannot be reached" in done.stderr


async def test_a_server_that_is_not_there_is_told_before_the_wake_word_is_waited_for() -> None:
    with pytest.raises(ClientError, match="cannot be reached"):
        async with _sessions(
            Settings(), _Wanted(server="http://127.0.0.1:9"), Manner(wake_word=WakeWord("hey jarvis"))
        ):
            pass


def test_one_canceller_works_and_not_two() -> None:
    manner = Manner()
    assert not for_one_microphone(Settings(), manner).audio.echo_guard
    headphones = Settings.model_validate({"audio": {"echo_cancellation": False}})
    assert for_one_microphone(headphones, manner).audio.echo_guard


def test_who_must_press_a_key_to_speak_is_not_asked_whether_they_are_there() -> None:
    assert for_one_microphone(Settings(), Manner(push_to_talk=True)).assistant.away_prompt_s == 0
    assert for_one_microphone(Settings(), Manner()).assistant.away_prompt_s > 0


def test_the_way_to_talk_and_the_voice_go_to_a_server_as_its_session_object() -> None:
    wanted = _Wanted(server="http://host", voice="emma")
    assert _options(wanted, Manner(push_to_talk=True)) == {
        "audio": {"input": {"turn_detection": None}, "output": {"voice": "emma"}}
    }
    assert _options(_Wanted(voice="emma"), Manner()) == {}, "here the voice is a setting"
    assert _options(_Wanted(), Manner(typed=True, silent=True)) == {"output_modalities": ["text"]}


def test_what_is_missing_is_named_with_its_size_before_it_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fetched: list[str] = []
    monkeypatch.setattr("app.cli.models.fetch", lambda entry, store, out: fetched.append(entry.name))
    settings = Settings.model_validate({"runtime": {"model_store": str(tmp_path)}})
    first_run.fetch_missing(settings)
    said = capsys.readouterr().err  # standard output may be a script's
    assert fetched == [entry.name for entry in first_run.missing_models(settings)]
    assert "whisper-base" in fetched
    assert all(name in said for name in fetched)
    assert "MB in all" in said


def test_nothing_is_asked_when_all_models_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "fault", lambda self, entry: "")
    monkeypatch.setattr("app.cli.models.fetch", lambda entry, store, out: pytest.fail("fetched"))
    first_run.fetch_missing(Settings())


_PEM = Certificate("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
_ADDRESS = ServerAddress("host", 8443, secure=True)


@pytest.fixture
def unknown_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A server that made its certificate itself; what the person answers is put into the list."""
    answers: list[str] = []

    async def untrusted(address: ServerAddress) -> bool:
        return False

    async def shows(address: ServerAddress) -> Certificate:
        return _PEM

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(remote, "_is_trusted", untrusted)
    monkeypatch.setattr(remote, "fetch_certificate", shows)
    monkeypatch.setattr("builtins.input", lambda prompt: answers.pop(0))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    return answers


async def test_a_certificate_is_asked_about_once(unknown_server: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    unknown_server.append("y")
    assert await remote._judged(_ADDRESS, insecure=False, say=print) == _PEM
    assert _PEM.fingerprint in capsys.readouterr().err
    assert await remote._judged(_ADDRESS, insecure=False, say=print) == _PEM, "asked again"


async def test_a_certificate_that_changed_is_said_to_have_changed(
    unknown_server: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    remote._remember({"host:8443": "AB:CD"})
    unknown_server.append("")
    with pytest.raises(UntrustedCertificate, match="not trusted"):
        await remote._judged(_ADDRESS, insecure=False, say=print)
    assert "CHANGED" in capsys.readouterr().err


async def test_without_a_terminal_nothing_is_trusted_unless_told_to(
    unknown_server: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    with pytest.raises(UntrustedCertificate, match="--insecure"):
        await remote._judged(_ADDRESS, insecure=False, say=print)
    said: list[str] = []
    assert await remote._judged(_ADDRESS, insecure=True, say=said.append) == _PEM
    assert _PEM.fingerprint in said[0]


def test_a_damaged_list_of_known_servers_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "parley").mkdir()
    (tmp_path / "parley" / "known_servers.json").write_text("{")
    with pytest.raises(ConfigError, match=r"known_servers\.json"):
        remote._known_servers()
