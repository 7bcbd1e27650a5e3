"""``--https``: the certificate that is made, one's own, and a real server behind each."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import ipaddress
import os
import socket
import ssl
import stat
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from app.client import ServerAddress, fetch_certificate
from app.config.settings import ServerSettings, Settings
from app.errors import ConfigError
from app.server import Access, Certificate, addresses, advice, bind, create_app, find_certificate, serve, tls

HTTPS = ServerSettings(https=True)  # type: ignore[call-arg]


def own(certificate: object, private_key: object = "") -> ServerSettings:
    return HTTPS.model_copy(update={"certificate": str(certificate), "private_key": str(private_key)})


@contextlib.asynccontextmanager
async def serving(certificate: Certificate) -> AsyncIterator[int]:
    """The port of a real server with ``certificate``."""
    sock = bind("127.0.0.1", 0)
    ready = asyncio.Event()
    app = create_app(Settings.model_validate({"server": {"host": "0.0.0.0", "token": "s3cret"}}))
    running = asyncio.create_task(serve(app, sock, certificate=certificate, on_ready=ready.set))
    await asyncio.wait_for(ready.wait(), 5)
    try:
        yield sock.getsockname()[1]
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def strict(certificate: Certificate) -> ssl.SSLContext:
    """A client that trusts this certificate, and is as strict as OpenSSL can be."""
    context = ssl.create_default_context(cafile=certificate.path)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def make_old(home: Path, monkeypatch: pytest.MonkeyPatch, valid_for: timedelta) -> Certificate:
    monkeypatch.setattr(tls, "_VALID_FOR", valid_for)
    made = find_certificate(HTTPS, home)
    monkeypatch.undo()
    return made


async def test_a_client_that_trusts_the_made_certificate_is_served_on_every_name_of_this_machine(
    tmp_path: Path,
) -> None:
    made = find_certificate(HTTPS, tmp_path)
    async with serving(made) as port, httpx.AsyncClient(verify=strict(made)) as client:
        for name in ("localhost", "127.0.0.1"):
            answer = await client.get(f"https://{name}:{port}/healthz")
            assert answer.json()["status"] == "ok"
    async with serving(made) as port, httpx.AsyncClient() as stranger:
        with pytest.raises(httpx.ConnectError, match="self-signed"):
            await stranger.get(f"https://localhost:{port}/healthz")


def test_the_certificate_names_localhost_the_host_and_all_addresses_that_others_may_use(tmp_path: Path) -> None:
    made = find_certificate(HTTPS.model_copy(update={"host": "parley.example"}), tmp_path)
    found = {
        card.address for cards in psutil.net_if_addrs().values() for card in cards if card.family == socket.AF_INET
    }
    name = socket.gethostname().lower()
    assert {"localhost", "127.0.0.1", "::1", name, "parley.example", *found} <= set(made.names)
    assert not any(ipaddress.ip_address(one).is_link_local for one in made.names if ":" in one)
    leaf = x509.load_pem_x509_certificate(made.path.read_bytes())
    lasts = leaf.not_valid_after_utc - leaf.not_valid_before_utc
    assert timedelta(days=300) < lasts <= timedelta(days=398), "Apple refuses those that are valid for longer"
    assert leaf.not_valid_before_utc < datetime.now(UTC) - timedelta(hours=23), "clocks differ"
    usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_the_key_is_its_owners_alone_and_kept_out_of_repositories(tmp_path: Path) -> None:
    made = find_certificate(HTTPS, tmp_path)
    assert made.path.parent == made.key_path.parent == tmp_path / ".parley"
    assert stat.S_IMODE(made.key_path.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.key_path.parent.stat().st_mode) == 0o700
    assert (tmp_path / ".parley" / ".gitignore").read_text() == "*\n"
    assert sorted(path.name for path in (tmp_path / ".parley").iterdir()) == [
        ".gitignore",
        "certificate.pem",
        "private-key.pem",
    ]


def test_the_certificate_is_kept_as_long_as_it_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = find_certificate(HTTPS, tmp_path)
    kept = first.path.read_bytes()
    assert find_certificate(HTTPS, tmp_path) == first
    assert first.path.read_bytes() == kept

    names = tls._names

    def moved(*more: str) -> Callable[[str], list[tls.Name]]:
        return lambda host: [*names(host), *(name for text in more if (name := tls._name(text)))]

    monkeypatch.setattr(tls, "_names", moved("2001:db8::77", "fe80::1%eth0"))
    find_certificate(HTTPS, tmp_path)
    assert first.path.read_bytes() == kept, "IPv6 addresses change every day"
    monkeypatch.setattr(tls, "_names", moved("192.0.2.77"))
    again = find_certificate(HTTPS, tmp_path)
    assert again.path.read_bytes() != kept
    assert "192.0.2.77" in again.names
    monkeypatch.undo()
    assert find_certificate(HTTPS, tmp_path) == again, "an address that is gone is no reason to warn people again"


@pytest.mark.parametrize("valid_for", [timedelta(hours=12), timedelta(days=4)])
def test_one_that_has_expired_or_soon_will_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, valid_for: timedelta
) -> None:
    old = make_old(tmp_path, monkeypatch, valid_for)
    fresh = find_certificate(HTTPS, tmp_path)
    assert fresh.expires > old.expires + timedelta(days=300)
    assert not fresh.expired


@pytest.mark.parametrize("file", ["certificate.pem", "private-key.pem"])
@pytest.mark.parametrize("content", [None, b"", b"half of a file"])
def test_one_that_was_damaged_is_made_anew(tmp_path: Path, file: str, content: bytes | None) -> None:
    find_certificate(HTTPS, tmp_path)
    damaged = tmp_path / ".parley" / file
    if content is None:
        damaged.unlink()
    else:
        damaged.write_bytes(content)
    find_certificate(HTTPS, tmp_path).context()


def test_a_key_of_another_certificate_is_noticed_and_both_are_made_anew(tmp_path: Path) -> None:
    here, there = find_certificate(HTTPS, tmp_path / "here"), find_certificate(HTTPS, tmp_path / "there")
    here.key_path.write_bytes(there.key_path.read_bytes())
    find_certificate(HTTPS, tmp_path / "here").context()


def test_a_folder_that_cannot_be_written_to_is_told_with_the_way_around_it(tmp_path: Path) -> None:
    (tmp_path / ".parley").write_text("in the way")
    with pytest.raises(ConfigError, match=r"\.parley.*server\.certificate"):
        find_certificate(HTTPS, tmp_path)


async def test_ones_own_certificate_is_used_and_nothing_is_made(tmp_path: Path) -> None:
    files = find_certificate(HTTPS, tmp_path / "authority")
    both = tmp_path / "both.pem"
    both.write_bytes(files.key_path.read_bytes() + files.path.read_bytes())
    for settings in (own(files.path, files.key_path), own(both)):
        mine = find_certificate(settings, tmp_path)
        assert not mine.made
        async with serving(mine) as port, httpx.AsyncClient(verify=strict(files)) as client:
            assert (await client.get(f"https://localhost:{port}/healthz")).status_code == 200
    assert not (tmp_path / ".parley").exists()


def test_what_is_wrong_with_ones_own_files_is_told_by_file_key_and_remedy(tmp_path: Path) -> None:
    files, others = find_certificate(HTTPS, tmp_path / "a"), find_certificate(HTTPS, tmp_path / "b")
    nonsense, locked = tmp_path / "nonsense.pem", tmp_path / "locked.pem"
    nonsense.write_text("hello")
    key = serialization.load_pem_private_key(files.key_path.read_bytes(), None)
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked.write_bytes(key.private_bytes(pem, pkcs8, serialization.BestAvailableEncryption(b"secret")))
    for settings, says in (
        (own("", files.key_path), r"server\.private_key is set and server\.certificate is not"),
        (own(tmp_path / "none.pem", files.key_path), r"none\.pem \(server\.certificate\) cannot be read: No such file"),
        (own(files.path, tmp_path / "none.pem"), r"none\.pem \(server\.private_key\) cannot be read: No such file"),
        (own(nonsense, files.key_path), r"nonsense\.pem \(server\.certificate\) is no certificate in PEM form"),
        (own(files.path, nonsense), r"nonsense\.pem \(server\.private_key\) holds no private key"),
        (own(files.path), r"certificate\.pem \(server\.private_key\) holds no private key"),
        (own(files.path, locked), r"locked\.pem .*passphrase.*openssl pkey -in"),
        (own(files.path, others.key_path), r"is not the key of .*certificate\.pem"),
    ):
        with pytest.raises(ConfigError, match=says):
            find_certificate(settings, tmp_path)


def test_with_ones_own_certificate_the_name_in_it_is_printed(tmp_path: Path) -> None:
    mine = find_certificate(HTTPS, tmp_path)
    for names, printed in (
        (("*.example", "parley.example", "a.example"), "parley.example"),
        (("*.example",), "127.0.0.1"),
    ):
        certificate = dataclasses.replace(mine, names=names, made=False)
        with contextlib.closing(bind("127.0.0.1", 0)) as sock:
            port = sock.getsockname()[1]
            assert addresses(sock, Access("", True, frozenset()), certificate) == (f"https://{printed}:{port}/",)
            assert "*.example" in advice(sock, certificate)


def test_an_own_certificate_that_has_expired_is_used_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = make_old(tmp_path, monkeypatch, timedelta(hours=12))
    mine = find_certificate(own(old.path, old.key_path), tmp_path)
    with contextlib.closing(bind("127.0.0.1", 0)) as sock:
        assert mine.expired
        assert f"expired on {mine.expires:%Y-%m-%d}" in advice(sock, mine)


def test_the_printed_addresses_are_https_and_the_browsers_warning_is_foretold(tmp_path: Path) -> None:
    made = find_certificate(HTTPS, tmp_path)
    access = Access.from_settings(HTTPS)
    assert HTTPS.address == "0.0.0.0"
    assert access.token
    with contextlib.closing(bind(HTTPS.address, 0)) as sock:
        port = sock.getsockname()[1]
        assert addresses(sock, access, made)[0] == f"https://127.0.0.1:{port}/#token={access.token}"
        assert "Advanced, then Continue" in advice(sock, made)
        assert "--host" not in advice(sock, made)
    with contextlib.closing(bind("127.0.0.1", 0)) as sock:
        assert "--host 0.0.0.0" in advice(sock, made)


async def _say(port: int, *pieces: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.02)
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    body = await reader.readexactly(length)
    writer.close()
    return head + body


async def test_http_on_the_https_port_is_sent_where_https_is(tmp_path: Path) -> None:
    made = find_certificate(HTTPS, tmp_path)
    async with serving(made) as port:
        async with httpx.AsyncClient(verify=strict(made), follow_redirects=True) as client:
            answer = await client.get(f"http://localhost:{port}/healthz?a=b")
            assert (answer.status_code, str(answer.url)) == (200, f"https://localhost:{port}/healthz?a=b")
        told = await _say(port, b"GE", b"T /x HTTP/1.1\r\naccept: */*\r\nHo", b"st: 192.0.2.1:8080\r\n\r\n")
        assert b"307 Temporary Redirect\r\nlocation: https://192.0.2.1:8080/x\r\n" in told
        assert b"write https:// in front" in told
        for odd in (
            b"GET / HTTP/1.0\r\n\r\n",
            b"GET / HTTP/1.1\r\nhost: a b\r\n\r\n",
            b"x" * 9000,
            b"\x00\r\n\r\n",
        ):
            assert (await _say(port, odd)).startswith(b"HTTP/1.1 400 ")
        async with httpx.AsyncClient(verify=strict(made)) as client:
            assert (await client.get(f"https://localhost:{port}/healthz")).status_code == 200


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_a_renewed_key_is_no_more_readable_than_the_first(tmp_path: Path) -> None:
    made = find_certificate(HTTPS, tmp_path)
    made.path.unlink()
    made.key_path.chmod(0o644)
    assert stat.S_IMODE(find_certificate(HTTPS, tmp_path).key_path.stat().st_mode) == 0o600


async def test_the_fingerprint_that_is_printed_is_the_one_that_a_client_sees(tmp_path: Path) -> None:
    made = find_certificate(HTTPS, tmp_path)
    async with serving(made) as port:
        assert (await fetch_certificate(ServerAddress("127.0.0.1", port, secure=True))).fingerprint == made.fingerprint


async def test_a_connection_on_which_all_is_said_is_not_waited_for_and_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = find_certificate(HTTPS, tmp_path)
    async with serving(made) as port:
        idle = await asyncio.to_thread(_asked_once, port)  # and reads no more, so that it never says goodbye
    with socket.socket(fileno=idle.detach()) as raw:
        raw.settimeout(5)
        while await asyncio.to_thread(raw.recv, 65536):
            pass
    assert not [record for record in caplog.records if record.name == "uvicorn.error"]


def _asked_once(port: int) -> ssl.SSLSocket:
    context = ssl._create_unverified_context()
    connection = context.wrap_socket(socket.create_connection(("127.0.0.1", port)))
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(65536)
    return connection
