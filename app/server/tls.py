"""The certificate of ``--https``: the operator's own, or one that is made here for the names of this machine."""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import psutil
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.config.settings import ServerSettings
from app.errors import ConfigError
from app.server.plain_http import RedirectingContext

FOLDER = ".parley"
"""Beside config.toml: what Parley makes for itself and keeps."""
_CERTIFICATE = "certificate.pem"
_KEY = "private-key.pem"
_VALID_FOR = timedelta(days=397)
"""Apple's systems refuse server certificates that are valid for more than 398 days."""
_VALID_BEFORE = timedelta(days=1)
"""A phone's clock may be behind ours."""
_RENEW_WITHIN = timedelta(days=7)

Name: TypeAlias = x509.DNSName | x509.IPAddress


@dataclass(frozen=True, slots=True)
class Certificate:
    """Two files that belong together."""

    path: Path
    key_path: Path
    names: tuple[str, ...]
    """Host names and addresses that it is for."""
    expires: datetime
    made: bool
    """By Parley, so that browsers warn of it."""
    fingerprint: str
    """SHA-256 of the DER form, as browsers and `--server` show it: ``AB:CD:...``."""

    @property
    def expired(self) -> bool:
        return self.expires <= datetime.now(UTC)

    def context(self) -> ssl.SSLContext:
        """What a server needs to speak with it. Raises ConfigError."""
        context = RedirectingContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.path, self.key_path)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"{self.path} and {self.key_path} cannot be used for https ({error}); check server.certificate and "
                "server.private_key, or leave both empty to have a certificate made."
            ) from None
        return context


def find_certificate(server: ServerSettings, folder: Path) -> Certificate:
    """The one of the settings, or the one in ``folder``/.parley, which is made if it is not there, not for all names
    of this machine, or about to expire. Raises ConfigError that names the file and the remedy."""
    if server.certificate or server.private_key:
        return _own(server)
    home = folder / FOLDER
    kept = kept_certificate(server, folder)
    if kept is not None:
        return kept
    try:
        _make(home, _names(server.host))
    except OSError as error:
        raise ConfigError(
            f"A certificate for https cannot be written to {home} ({error.strerror or error}); make that folder "
            "writable, or set server.certificate and server.private_key."
        ) from None
    return _read(home / _CERTIFICATE, home / _KEY, made=True)


def kept_certificate(server: ServerSettings, folder: Path) -> Certificate | None:
    """The one that was made before, if it will do."""
    home = folder / FOLDER
    try:
        kept = _read(home / _CERTIFICATE, home / _KEY, made=True)
    except ConfigError:
        return None
    # IPv6 addresses change by themselves every day (RFC 8981), and a new certificate is one more warning in the
    # browser: they are in it, but do not make it old.
    wanted = {name for name in map(_text, _names(server.host)) if ":" not in name}
    return kept if wanted <= set(kept.names) and kept.expires > datetime.now(UTC) + _RENEW_WITHIN else None


def _own(server: ServerSettings) -> Certificate:
    if not server.certificate:
        raise ConfigError(
            "server.private_key is set and server.certificate is not; set both, or neither to have a certificate made."
        )
    certificate = Path(server.certificate)
    return _read(certificate, Path(server.private_key) if server.private_key else certificate, made=False)


def _read(path: Path, key_path: Path, *, made: bool) -> Certificate:
    """Raises ConfigError when one cannot be used, or they do not belong together."""
    text = _bytes(path, "server.certificate")
    try:
        leaf = x509.load_pem_x509_certificates(text)[0]
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise ConfigError(
            f"{path} (server.certificate) names no host (subjectAltName), and browsers refuse such a certificate; "
            "have it issued again with the server's name in it."
        ) from None
    except (ValueError, IndexError):
        raise ConfigError(
            f"{path} (server.certificate) is no certificate in PEM form: its text begins with "
            '"-----BEGIN CERTIFICATE-----".'
        ) from None
    if _private_key(key_path).public_key() != leaf.public_key():
        raise ConfigError(
            f"{key_path} (server.private_key) is not the key of {path} (server.certificate, whose first certificate "
            "must be the server's own); give the two that were made together."
        )
    texts = tuple(_text(name) for name in names if isinstance(name, x509.DNSName | x509.IPAddress))
    fingerprint = leaf.fingerprint(hashes.SHA256()).hex(":").upper()
    return Certificate(path, key_path, texts, leaf.not_valid_after_utc, made, fingerprint)


def _private_key(path: Path) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(_bytes(path, "server.private_key"), password=None)
    except TypeError:
        raise ConfigError(
            f"{path} (server.private_key) is locked with a passphrase, which nobody is there to type; unlock a copy: "
            f"openssl pkey -in {path} -out unlocked.pem"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError(
            f'{path} (server.private_key) holds no private key in PEM form ("-----BEGIN PRIVATE KEY-----").'
        ) from None


def _bytes(path: Path, key: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} ({key}) cannot be read: {error.strerror or error}.") from None


def _make(home: Path, names: list[Name]) -> None:
    """Write a key, and a certificate that it has signed itself, with ``names`` in it. Raises OSError."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Parley on this machine")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID_BEFORE)
        .not_valid_after(now - _VALID_BEFORE + _VALID_FOR)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        # What OpenSSL wants of a certificate where it is strict (RFC 5280, 4.2.1.1 and 4.2.1.2).
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(key, hashes.SHA256())
    )
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / ".gitignore").write_text("*\n")  # a key is in here, and config.toml may lie in somebody's repository
    pkcs8 = serialization.PrivateFormat.PKCS8
    _replace(home / _KEY, key.private_bytes(serialization.Encoding.PEM, pkcs8, serialization.NoEncryption()))
    _replace(home / _CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)


def _replace(path: Path, content: bytes, mode: int = 0o600) -> None:
    """At once, so that nobody reads half of it, and never readable by more than ``mode`` says."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    fresh.replace(path)


def _names(host: str) -> list[Name]:
    """All that this machine may be called: localhost, its name, with .local too (multicast DNS), its addresses, and
    ``host``, where it is told to listen."""
    own = socket.gethostname().lower()
    texts = ["localhost", own, own if "." in own else f"{own}.local", "127.0.0.1", "::1", host.lower()]
    for cards in psutil.net_if_addrs().values():
        texts += [card.address for card in cards if card.family in (socket.AF_INET, socket.AF_INET6)]
    names = (_name(text) for text in texts)
    return list(dict.fromkeys(name for name in names if name is not None))


def _name(text: str) -> Name | None:
    """None for what a browser would not connect to, or a certificate cannot say."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0].strip("[]"))
    except ValueError:
        return x509.DNSName(text) if text and text.isascii() and " " not in text else None
    return None if address.is_link_local or address.is_unspecified else x509.IPAddress(address)


def _text(name: Name) -> str:
    return str(name.value)
