"""The real server over the real stages, for browsers to talk to."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

import numpy as np

from app.audio import Pcm, resample
from app.config import Settings
from app.server import Choices, bind, create_app, serve
from app.transports.webrtc import WebRtcCalls
from app.tts.speakable import speakable
from app.wiring import Parley


@contextlib.asynccontextmanager
async def served(parley: Parley, settings: Settings) -> AsyncIterator[str]:
    """The server on a free loopback port; its address, which ends with a slash."""
    calls = WebRtcCalls(parley.host, settings.server)
    sock = bind("127.0.0.1", 0)
    ready = asyncio.Event()
    app = create_app(settings, parley.host, calls, choices=Choices.of(parley.stages))
    serving = asyncio.create_task(serve(app, sock, on_ready=ready.set))
    await asyncio.wait_for(ready.wait(), 10)
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/"
    finally:
        serving.cancel()
        await asyncio.wait([serving])
        await calls.close_all()


def as_said(text: str) -> str:
    """Words as they are said: "7" and "seven" are the same."""
    return re.sub(r"[^\w\s']", " ", speakable(text).text.lower()).strip()


def loud_part(sound: Pcm, rate_hz: int) -> Pcm:
    """What was said in ``sound``, with half a second of silence around it; int16 at 16 kHz. Fails if all is silent."""
    loud = np.flatnonzero(np.abs(sound.astype(np.int32)) > 300)
    assert len(loud), "nothing was played"
    half_a_second = rate_hz // 2
    return resample(np.pad(sound[loud[0] : loud[-1]], half_a_second), rate_hz, 16_000)
