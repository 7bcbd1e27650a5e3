"""What can go wrong between this program and a server, in words."""

from __future__ import annotations

from app.errors import ParleyError


class ClientError(ParleyError):
    """The server cannot be reached or does not speak as it should. Trying again may help."""

    code = "server_unreachable"


class ServerRefused(ClientError):
    """The server answered, and the answer was no. Trying again the same way does not help."""

    code = "server_refused"
