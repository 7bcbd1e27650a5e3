"""What ``doctor`` says of https and phones."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app.cli import doctor, phones
from app.cli.finding import Finding
from app.config.settings import ServerSettings, Settings
from app.server import bind, create_app, find_certificate, serve, tls


def found(folder: Path, **server: Any) -> list[Finding]:
    return list(phones.findings(ServerSettings.model_validate(server), folder))


def test_a_plain_server_for_this_machine_is_well_and_the_way_to_phones_is_told(tmp_path: Path) -> None:
    https, reach = found(tmp_path)
    assert https.verdict == "good"
    assert (reach.verdict, "--https" in reach.remedy) == ("note", True)


def test_http_for_other_machines_is_noted_with_the_remedy(tmp_path: Path) -> None:
    https, _ = found(tmp_path, host="0.0.0.0")
    assert (https.verdict, "microphone" in https.text, "--https" in https.remedy) == ("note", True, True)


def test_https_on_this_machine_alone_is_noted(tmp_path: Path) -> None:
    _, reach = found(tmp_path, https=True, host="127.0.0.1")
    assert (reach.verdict, reach.remedy) == ("note", "--host 0.0.0.0 lets them in.")


def test_the_certificate_that_will_be_or_was_made_is_told_and_looking_makes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phones, "lan_address", lambda: "192.0.2.9")
    https, reach = found(tmp_path, https=True, port=8443)
    assert "will be made" in https.text
    assert not (tmp_path / ".parley").exists()
    assert "192.0.2.9" in reach.text
    assert "8443" in reach.text
    made = find_certificate(ServerSettings(https=True), tmp_path)  # type: ignore[call-arg]
    https, _ = found(tmp_path, https=True)
    assert f"until {made.expires:%Y-%m-%d}" in https.text
    assert made.fingerprint in https.text
    monkeypatch.setattr(phones, "lan_address", lambda: None)
    assert found(tmp_path, https=True)[1].remedy == "Connect it to the network."


def test_ones_own_certificate_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = find_certificate(ServerSettings(https=True), tmp_path)  # type: ignore[call-arg]
    files = {"certificate": str(made.path), "private_key": str(made.key_path)}
    assert found(tmp_path, https=True, **files)[0].verdict == "good"
    assert found(tmp_path, **files)[0].remedy == "Set server.https = true, or --https."
    broken = found(tmp_path, https=True, certificate=str(tmp_path / "none.pem"))[0]
    assert (broken.verdict, "none.pem" in broken.remedy) == ("bad", True)
    monkeypatch.setattr(tls, "_VALID_FOR", timedelta(hours=1))
    old = find_certificate(ServerSettings(https=True), tmp_path / "old")  # type: ignore[call-arg]
    expired = found(tmp_path, https=True, certificate=str(old.path), private_key=str(old.key_path))[0]
    assert (expired.verdict, expired.remedy) == ("bad", "Have it renewed.")


@pytest.mark.parametrize(
    ("entry", "verdict"),
    [
        ("stun:stun.example:3478", "good"),
        ("turn:anna:s3cret@turn.example:3478?transport=tcp", "good"),
        ("turn:turn.example:3478", "bad"),
        ("http://turn.example", "bad"),
        ("stun:", "bad"),
    ],
)
def test_each_ice_server_is_looked_at_and_no_password_is_shown(tmp_path: Path, entry: str, verdict: str) -> None:
    ice = found(tmp_path, ice_servers=[entry])[-1]
    assert ice.verdict == verdict
    assert "s3cret" not in ice.text + ice.remedy


def test_doctor_calls_a_port_that_another_program_holds_unusable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_ANSWER_S", 0.1)
    with bind("127.0.0.1", 0) as sock:
        settings = Settings.model_validate({"server": {"host": "127.0.0.1", "port": sock.getsockname()[1]}})
        assert "cannot be used" in doctor._port(settings).text


async def test_doctor_knows_parley_itself_from_another_program_on_its_port(tmp_path: Path) -> None:
    for certificate, scheme in ((None, "http"), (find_certificate(ServerSettings(https=True), tmp_path), "https")):  # type: ignore[call-arg]
        sock = bind("127.0.0.1", 0)
        settings = Settings.model_validate({"server": {"host": "127.0.0.1", "port": sock.getsockname()[1]}})
        with sock:
            running = asyncio.create_task(serve(create_app(settings), sock, certificate=certificate))
            port = await asyncio.to_thread(doctor._port, settings)
            running.cancel()
            await asyncio.wait([running])
        assert (port.verdict, "Parley itself is running" in port.text, f"({scheme})" in port.text) == (
            "good",
            True,
            True,
        )


def test_doctor_looks_where_the_server_will_listen() -> None:
    port = doctor._port(Settings.model_validate({"server": {"https": True, "port": 0}}))
    assert port.text.startswith("0.0.0.0:0 is free")
