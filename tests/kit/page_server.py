"""The real server with real WebRTC calls, over scripted sessions: for tests of the page."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from app.config.settings import Settings
from app.server import Certificate, bind, create_app, serve
from app.transports.webrtc import WebRtcCalls
from tests.kit.scripted_session import ScriptedHost, ScriptedSession


@dataclass(frozen=True, slots=True)
class PageServer:
    """``url`` ends with a slash; ``host`` opens the sessions."""

    url: str
    host: ScriptedHost

    async def session(self) -> ScriptedSession:
        """The newest session, once there is one."""
        async with asyncio.timeout(5):
            while not self.host.active:  # noqa: ASYNC110 - opened by a browser, which cannot signal
                await asyncio.sleep(0.01)
        return self.host.sessions[-1]


@contextlib.asynccontextmanager
async def page_server(
    host: ScriptedHost, port: int = 0, certificate: Certificate | None = None, **server: object
) -> AsyncIterator[PageServer]:
    """Serve on a free loopback port, https with a ``certificate``; ``server`` are keys of the [server] section."""
    settings = Settings.model_validate({"server": server})
    host.settings = settings
    sock = bind("127.0.0.1", port)
    app = create_app(settings, host, WebRtcCalls(host, settings.server))
    ready = asyncio.Event()
    serving = asyncio.create_task(serve(app, sock, certificate=certificate, on_ready=ready.set))
    await asyncio.wait_for(ready.wait(), 5)
    try:
        yield PageServer(f"http{'s' if certificate else ''}://127.0.0.1:{sock.getsockname()[1]}/", host)
    finally:
        serving.cancel()
        await asyncio.wait([serving])
