"""The HTTP side: the page, signalling, health and metrics, and who may use them."""

from app.server.access import Access, is_loopback
from app.server.app import create_app
from app.server.calls import Answer, CallService
from app.server.metered import MeteredHost
from app.server.runner import addresses, advice, bind, lan_address, serve
from app.server.status import Choices
from app.server.tls import Certificate, find_certificate, kept_certificate

__all__ = [
    "Access",
    "Answer",
    "CallService",
    "Certificate",
    "Choices",
    "MeteredHost",
    "addresses",
    "advice",
    "bind",
    "create_app",
    "find_certificate",
    "is_loopback",
    "kept_certificate",
    "lan_address",
    "serve",
]
