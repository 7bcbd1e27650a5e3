from __future__ import annotations

import argparse
import contextlib
import io
from pathlib import Path

import pytest
from rich.console import Console

from app.cli import serve
from app.config import load_settings
from app.config.settings import ServerSettings, Settings
from app.errors import ConfigError
from app.server import Access, bind, find_certificate
from app.telemetry.stage import StageReport


def test_the_start_up_tells_what_each_stage_cost_and_where_to_go() -> None:
    out = io.StringIO()
    start_up = serve.StartUp(Console(file=out, width=60))
    start_up.begin()
    start_up.stage(StageReport("ASR", "faster-whisper [whisper-base] cpu int8", 1.23, 0.45, 210.4))
    start_up.stage(StageReport("VAD", "silero", 0.1, 0.0, 12.0))
    start_up.ready(("http://127.0.0.1:8080/#token=abc", "http://192.0.2.1:8080/#token=abc"), "Browsers want https.")
    lines = out.getvalue().splitlines()
    assert "\x1b" not in out.getvalue(), "plain lines when the output is no terminal"
    told = " ".join(lines[1].split())
    assert told == "✓ ASR load 1.2 s warm-up 0.5 s memory 210 MiB faster-whisper [whisper-base] cpu int8"
    assert lines[3].startswith("Ready in ")
    assert "222 MiB" in lines[3]
    assert lines[4] == "Parley is ready: http://127.0.0.1:8080/#token=abc"
    assert lines[5].strip() == "http://192.0.2.1:8080/#token=abc"
    assert lines[6] == "Browsers want https."
    start_up.end("requests")
    assert out.getvalue().splitlines()[-1] == "All requests are ended."


def test_a_terminal_shows_the_phones_address_as_a_code_and_a_file_only_as_text() -> None:
    urls = ("https://127.0.0.1:8080/#token=abc", "https://192.0.2.1:8080/#token=abc")
    shown: dict[bool, str] = {}
    for terminal in (True, False):
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        console = Console(
            file=out, force_terminal=terminal, color_system="256" if terminal else None, width=80, legacy_windows=False
        )
        serve.StartUp(console).ready(urls, "Browsers warn.", phone=urls[1], fingerprint="AB:CD")
        out.seek(0)
        shown[terminal] = out.read()
    assert "▀" in shown[True]
    assert "scan" in shown[True]
    assert shown[False].splitlines()[1:] == [
        "Parley is ready: https://127.0.0.1:8080/#token=abc",
        "                 https://192.0.2.1:8080/#token=abc",
        "The certificate's fingerprint (SHA-256):",
        "  AB:CD",
        "Browsers warn.",
        "Ctrl-C ends it.",
    ]


def test_a_certificate_that_cannot_be_used_is_told_before_any_model_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(serve, "build", None)
    settings = Settings.model_validate(
        {"server": {"https": True, "port": 0, "certificate": str(tmp_path / "none.pem"), "host": "127.0.0.1"}}
    )
    with pytest.raises(ConfigError, match=r"none\.pem \(server\.certificate\) cannot be read"):
        serve.run(settings)


def test_https_listens_on_every_address_unless_one_is_named() -> None:
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    for flags, address in (
        ([], "127.0.0.1"),
        (["--https"], "0.0.0.0"),
        (["--https", "--host", "127.0.0.1"], "127.0.0.1"),
        (["--no-https"], "127.0.0.1"),
    ):
        settings = load_settings(
            Path("config.toml"), environment={}, overrides=serve.overrides(parser.parse_args(flags))
        )
        assert settings.server.address == address


def test_a_busy_port_is_told_before_any_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*args: object, **kwargs: object) -> None:
        raise AssertionError("loading began")

    monkeypatch.setattr(serve, "build", build)
    with contextlib.closing(bind("127.0.0.1", 0)) as taken:
        settings = Settings.model_validate({"server": {"port": taken.getsockname()[1]}})
        with pytest.raises(ConfigError, match="already in use"):
            serve.run(settings)


def test_flags_override_the_settings_they_name() -> None:
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    assert serve.overrides(parser.parse_args(["--port", "0", "--host", "0.0.0.0"])) == {
        "server.port": 0,
        "server.host": "0.0.0.0",
    }
    assert serve.overrides(parser.parse_args([])) == {}
    assert parser.parse_args(["--api-only"]).api_only


def test_a_server_without_a_page_tells_its_base_url_and_not_its_token(tmp_path: Path) -> None:
    access = Access("s3cret", loopback=True, allowed_origins=frozenset())
    with contextlib.closing(bind("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        assert serve._addresses(sock, access, api_only=True) == (f"http://127.0.0.1:{port}/v1",)
        assert serve._addresses(sock, access, api_only=False) == (f"http://127.0.0.1:{port}/#token=s3cret",)
    assert "s3cret" in serve._for_clients(Settings(), access)
    known = Settings.model_validate({"server": {"token": "s3cret"}})
    assert serve._for_clients(known, access) == ""
    made = find_certificate(ServerSettings(https=True), tmp_path)  # type: ignore[call-arg]
    assert str(made.path) in serve._for_clients(known, access, made)
