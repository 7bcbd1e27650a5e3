"""A session on a Parley that runs elsewhere: its WebSocket sound, as a ConversationPort."""

from app.client.address import ServerAddress, parse_address
from app.client.certificate import Certificate, UntrustedCertificate, fetch_certificate, trusting
from app.client.errors import ClientError, ServerRefused
from app.client.session import RemoteSession

__all__ = [
    "Certificate",
    "ClientError",
    "RemoteSession",
    "ServerAddress",
    "ServerRefused",
    "UntrustedCertificate",
    "fetch_certificate",
    "parse_address",
    "trusting",
]
