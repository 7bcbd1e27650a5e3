"""What phones and other machines need of this one, as ``doctor`` sees it: https, an address, a way for the sound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from app.cli.finding import Finding
from app.config.settings import ServerSettings
from app.errors import ConfigError
from app.server import Certificate, find_certificate, is_loopback, kept_certificate, lan_address
from app.transports.ice import ice_server

_SCHEMES = ("stun", "stuns", "turn", "turns")


def findings(server: ServerSettings, folder: Path) -> Iterator[Finding]:
    """``folder`` is where a made certificate is kept."""
    yield _https(server, folder)
    yield _reach(server)
    yield from map(_ice, server.ice_servers)


def _https(server: ServerSettings, folder: Path) -> Finding:
    if not server.https:
        if server.certificate or server.private_key:
            return Finding("note", "A certificate is set, but https is off", "Set server.https = true, or --https.")
        if is_loopback(server.address):
            kept = kept_certificate(server, folder)
            more = f"; --https has Parley's own certificate{_fingerprint(kept)}" if kept else ""
            return Finding("good", f"http on this machine alone{more}")
        remedy = "Use --https, unless an https proxy stands in front (docs/phone.md)."
        return Finding("note", "http for other machines: their browsers give the page no microphone", remedy)
    try:
        if server.certificate or server.private_key:
            return _own(find_certificate(server, folder))
    except ConfigError as error:
        return Finding("bad", "https cannot be served", str(error))
    if kept := kept_certificate(server, folder):
        text = f"https: Parley's own certificate, until {kept.expires:%Y-%m-%d}, for {_names(kept)}{_fingerprint(kept)}"
        return Finding("good", text)
    return Finding("good", "https: a certificate for this machine will be made at the next start")


def _own(certificate: Certificate) -> Finding:
    certificate.context()
    text = f"https: {certificate.path}, until {certificate.expires:%Y-%m-%d}, for {_names(certificate)}"
    if certificate.expired:
        return Finding("bad", f"{text}: expired", "Have it renewed.")
    return Finding("good", text + _fingerprint(certificate))


def _fingerprint(certificate: Certificate) -> str:
    return f"; its fingerprint (SHA-256):\n  {certificate.fingerprint}"


def _names(certificate: Certificate) -> str:
    return ", ".join(name for name in certificate.names if not is_loopback(name))


def _reach(server: ServerSettings) -> Finding:
    if is_loopback(server.address):
        remedy = "--host 0.0.0.0 lets them in." if server.https else "`serve --https` lets them in (docs/phone.md)."
        return Finding("note", f"Phones and other machines cannot reach {server.address}", remedy)
    address = lan_address()
    if address is None:
        return Finding("note", "This machine has no address that a phone could reach", "Connect it to the network.")
    return Finding(
        "note",
        f"Phones in the same network reach {address}, if its firewall lets in TCP port {server.port or '(any)'} and UDP",
        "The page's self-test (check.html) shows on the phone whether they come through; without UDP, sound takes TCP.",
    )


def _ice(entry: str) -> Finding:
    """The address alone is told: what is in front of it is a password."""
    server = ice_server(entry)
    scheme, _, rest = server.url.partition(":")
    text = f"ICE server {server.url}"
    try:
        host = urlsplit(f"//{rest}").hostname
    except ValueError:
        host = None
    if scheme not in _SCHEMES or not host:
        return Finding("bad", f"{text} is none", 'Write "stun:host:port" or "turn:user:password@host:port".')
    if scheme.startswith("turn") and not (server.username and server.credential):
        return Finding("bad", f"{text} has no user and password", 'Write "turn:user:password@host:port".')
    return Finding("good", text)
