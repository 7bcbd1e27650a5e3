"""The HTTP side: the page, signalling, health and metrics, and who may use them."""

from app.server.access import Access
from app.server.app import create_app
from app.server.calls import Answer, CallService
from app.server.metered import MeteredHost
from app.server.runner import addresses, advice, bind, serve

__all__ = ["Access", "Answer", "CallService", "MeteredHost", "addresses", "advice", "bind", "create_app", "serve"]
