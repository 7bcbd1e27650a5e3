"""Self-signed https: shown by its fingerprint, then trusted as that one certificate and no other."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from dataclasses import dataclass

from app.client.address import ServerAddress
from app.client.errors import ClientError

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a server showed, in PEM. Nothing has vouched for it yet."""

    pem: str

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the DER form, as servers and browsers show it: ``AB:CD:...``."""
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(self.pem)).hexdigest().upper()
        return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))

    def matches(self, fingerprint: str) -> bool:
        """Whether ``fingerprint`` is this one's, with or without colons, in any case."""
        return fingerprint.replace(":", "").strip().upper() == self.fingerprint.replace(":", "")


class UntrustedCertificate(ClientError):
    """Nobody that this machine trusts has signed the server's certificate."""

    code = "untrusted_certificate"


async def fetch_certificate(address: ServerAddress) -> Certificate:
    """What the server shows to anybody who connects; nothing is sent to it. Raises ClientError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    except (OSError, TimeoutError) as error:
        raise ClientError(f"{address.url} shows no certificate: {error or 'no answer'}.") from error
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.transport.abort()
    return Certificate(ssl.DER_cert_to_PEM_cert(shown))


def trusting(certificate: Certificate | None) -> ssl.SSLContext:
    """A context that accepts ``certificate`` alone, whatever name it bears; without one, what the system trusts."""
    if certificate is None:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # this very certificate says more than any name in it
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificate.pem)
    return context
