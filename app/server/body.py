"""Reading the body of a request: JSON by its type, bounded in size and time."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request


async def read_json_body(request: Request, *, limit: int, timeout_s: float) -> bytes:
    """The bytes, not yet parsed. ``limit`` is in bytes.

    Raises HTTPException (408, 413, 415), and ClientDisconnect if the client went away.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise HTTPException(415, "Send the body as application/json.")
    too_large = HTTPException(413, f"The body may have at most {limit // 1024} KiB.")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise too_large
    except TimeoutError:
        raise HTTPException(408, f"The body did not arrive within {timeout_s:.0f} s.") from None
    return bytes(body)
