"""A real TURN relay on loopback: Debian's coturn."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator

INSTALLED = shutil.which("turnserver") is not None


@contextlib.asynccontextmanager
async def turn_server(port: int) -> AsyncIterator[None]:
    """coturn on 127.0.0.1, for alice with the password "right"."""
    arguments = (
        "-n --no-cli --no-tls --no-dtls --log-file=stdout --simple-log --lt-cred-mech --realm=parley --user=alice:right "
        f"--listening-ip=127.0.0.1 --relay-ip=127.0.0.1 --allow-loopback-peers --listening-port={port}"
    )
    process = await asyncio.create_subprocess_exec(
        "turnserver", *arguments.split(), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(10):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                except OSError:
                    await asyncio.sleep(0.05)
        yield
    finally:
        process.terminate()
        await process.wait()
