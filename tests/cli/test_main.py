from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli.main import FLAGS_OF_OTHERS, main

Show = Callable[..., list[str]]


@pytest.fixture
def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Show:
    """What ``config`` shows, as lines."""
    (tmp_path / "empty.toml").touch()

    def show(*arguments: str) -> list[str]:
        assert main([argument.replace("EMPTY", str(tmp_path / "empty.toml")) for argument in arguments]) == 0
        return capsys.readouterr().out.splitlines()

    return show


@pytest.mark.parametrize(
    "arguments",
    [
        ["--config", "EMPTY", "--llm", "mine", "--set", "llm.top_k=3", "--set", "llm.top_p=0.5", "config"],
        ["config", "--config", "EMPTY", "--llm", "mine", "--set", "llm.top_k=3", "--set", "llm.top_p=0.5"],
        ["--config", "EMPTY", "--set", "llm.top_k=3", "config", "--llm=mine", "--set", "llm.top_p=0.5"],
        [
            *("--llm", "other", "--set", "llm.top_k=9", "--set", "llm.top_p=0.5"),
            *("config", "--config=EMPTY", "--llm", "mine", "--set", "llm.top_k=3"),
        ],
    ],
)
def test_settings_may_be_given_before_and_after_the_command_and_the_last_wins(
    shown: Show, arguments: list[str]
) -> None:
    lines = shown(*arguments)
    assert {'model = "mine"', "top_k = 3", "top_p = 0.5"} <= set(lines)


def test_what_follows_the_command_is_not_taken_for_another_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--llm", "doctor", "--help"])
    assert "--api-only" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--token", "microphone"], "--token is for a Parley elsewhere"),
        (["--token", "x", "microphone"], "--token is for a Parley elsewhere"),
        (["microphone", "--token", "serve"], "--token is for a Parley elsewhere"),
        (["--device", "USB", "serve"], "--device is no flag of serve"),
    ],
)
def test_a_flag_before_its_commands_name_is_not_forgotten(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["serve", "--bogus"], ["python -m app serve [-h]", "--port", "--https", "unrecognized arguments: --bogus"]),
        (["--port", "9000"], ["--port belongs to serve: python -m app serve --port"]),
        (["talk", "--port=9000"], ["--port belongs to serve"]),
        (["servee"], ["there is no command 'servee'; did you mean 'serve'?"]),
        (["xyz"], ["there is no command 'xyz'; see --help"]),
        (["--pushtotalk"], ["did you mean --push-to-talk?"]),
        (["microphone", "serve"], ["two commands: microphone and serve"]),
    ],
)
def test_what_cannot_be_followed_is_told_with_the_usage_of_what_was_meant(
    arguments: list[str], told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = " ".join(capsys.readouterr().err.split())
    assert ended.value.code == 2
    assert all(words in said for words in told), said


def test_a_setting_that_is_none_is_an_error_of_usage_like_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--set", "nonsense", "config"]) == 2
    assert "--set 'nonsense' must be KEY=VALUE" in capsys.readouterr().err


def test_each_hint_at_another_command_is_true() -> None:
    for flag, name in FLAGS_OF_OTHERS.items():
        parser = argparse.ArgumentParser()
        importlib.import_module(f"app.cli.{name}").add_arguments(parser)
        assert flag in parser.format_help(), (flag, name)


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["bench", "--help"]])
def test_every_help_tells_the_settings_and_how_a_list_is_written(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    told = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert "--llm MODEL" in told
    assert "asr.languages=en,de" in told
    assert "``" not in told
