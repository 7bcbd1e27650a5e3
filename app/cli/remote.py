"""``--server URL``: whether to trust that server, and how to open sessions on it."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from app.cli.keys import ask, screen, somebody_types
from app.cli.talking import OpenSession
from app.client import (
    Certificate,
    RemoteSession,
    ServerAddress,
    UntrustedCertificate,
    fetch_certificate,
    parse_address,
    trusting,
)
from app.dialogue.ports import ConversationPort, EventSink
from app.errors import ConfigError

_TOKEN_VARIABLE = "PARLEY_SERVER__TOKEN"
_PROBE_S = 10.0


def address_of(server: str, token: str | None) -> ServerAddress:
    """From the flags and the environment. config.toml is not asked: the token there is this machine's own, and must
    not be told to another. Raises ConfigError."""
    return parse_address(server, token or os.environ.get(_TOKEN_VARIABLE, ""))


async def sessions_on(
    address: ServerAddress, options: Mapping[str, Any], *, insecure: bool, say: Callable[[str], None]
) -> OpenSession:
    """How to open sessions there. Asks in the terminal about a certificate that nobody has vouched for.

    Raises ClientError, and UntrustedCertificate if it is not to be trusted.
    """
    certificate = await _judged(address, insecure=insecure, say=say) if address.secure else None
    context = trusting(certificate) if address.secure else None

    async def open_session(send: EventSink) -> ConversationPort:
        return await RemoteSession.open(address, send, options=options, context=context)

    return open_session


async def _judged(address: ServerAddress, *, insecure: bool, say: Callable[[str], None]) -> Certificate | None:
    """The certificate to trust; None where the system trusts it anyway."""
    if await _is_trusted(address):
        return None
    shown = await fetch_certificate(address)
    if insecure:
        say(f"The certificate of {address.url} is not checked (--insecure). Its fingerprint: {shown.fingerprint}")
        return shown
    known = _known_servers()
    name = f"{address.host}:{address.port}"
    before = known.get(name, "")
    if before and shown.matches(before):
        return shown
    changed = f"The certificate of {name} has CHANGED since it was trusted here.\n" if before else ""
    question = (
        f"{changed}{address.url} made its certificate itself, so nothing vouches for it.\n"
        f"Its fingerprint (SHA-256):\n  {shown.fingerprint}\n"
        "It must be the one that the server printed at its start."
    )
    if not somebody_types():
        raise UntrustedCertificate(f"{question} Run this once in a terminal to trust it, or add --insecure.")
    print(question, file=screen(), flush=True)
    if await asyncio.to_thread(ask, "Trust it from now on? [y/N] ", at_end="n") not in ("y", "yes"):
        raise UntrustedCertificate(f"{address.url} was not trusted.")
    _remember({**known, name: shown.fingerprint})
    return shown


async def _is_trusted(address: ServerAddress) -> bool:
    """Whether this machine's authorities vouch for it. Other troubles are told by whoever connects next."""
    try:
        async with asyncio.timeout(_PROBE_S):
            _, writer = await asyncio.open_connection(
                address.host, address.port, ssl=ssl.create_default_context(), server_hostname=address.host
            )
    except ssl.SSLCertVerificationError:
        return False
    except (OSError, TimeoutError):
        return True
    writer.transport.abort()
    return True


def _store() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "parley" / "known_servers.json"


def _known_servers() -> dict[str, str]:
    """Fingerprints by ``host:port``."""
    try:
        known = json.loads(_store().read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{_store()} cannot be read ({error}); mend or delete it.") from error
    return {str(name): str(value) for name, value in known.items()} if isinstance(known, dict) else {}


def _remember(known: Mapping[str, str]) -> None:
    with suppress(OSError):  # asked again next time
        _store().parent.mkdir(parents=True, exist_ok=True)
        _store().write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", "utf-8")
