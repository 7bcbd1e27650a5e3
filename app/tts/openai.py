"""Any server that speaks OpenAI's /v1/audio/speech, streamed as 24 kHz PCM."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from app.audio.frames import Pcm
from app.config.settings import RuntimeSettings, TtsSettings
from app.errors import ModelError, Overloaded, StageError, StageTimeout, StageUnavailable
from app.telemetry.stage import StageReport
from app.tts.base import SPEEDS, known_voice

_RATE_HZ = 24_000
"""Of response_format "pcm", which OpenAI defines as 24 kHz mono s16le."""
_CONNECT_S = 5.0
_DEFAULT_VOICE = "alloy"
_MAX_VOICES = 500
_OPENAI = "api.openai.com"
_OPENAI_VOICES = ("alloy", "ash", "coral", "echo", "fable", "nova", "onyx", "sage", "shimmer")
"""Those that every speech model of OpenAI's has (its API reference, /v1/audio/speech); it offers no list itself."""


class OpenAISynthesizer:
    """A voice behind ``tts.base_url``."""

    def __init__(self, settings: TtsSettings, runtime: RuntimeSettings, model_folder: Path | None = None) -> None:
        if not settings.base_url:
            raise ModelError('tts.base_url is empty: backend "openai" needs it, for example http://127.0.0.1:8880/v1')
        self._settings = settings
        self._base_url = settings.base_url.rstrip("/")
        headers = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
        self._client = httpx.AsyncClient(headers=headers, timeout=httpx.Timeout(None, connect=_CONNECT_S))
        self._open = 0
        self._voices: tuple[str, ...] = (self.default_voice,)

    @property
    def rate_hz(self) -> int:
        return _RATE_HZ

    @property
    def voices(self) -> tuple[str, ...]:
        return self._voices

    @property
    def default_voice(self) -> str:
        return self._settings.voice or _DEFAULT_VOICE

    @property
    def speeds(self) -> tuple[float, float]:
        return SPEEDS

    async def load(self) -> StageReport:
        began = time.perf_counter()
        async for _ in self.synthesize("Ready."):
            pass
        listed = await self._listed()
        self._voices = listed if self.default_voice in listed else (self.default_voice, *listed)
        detail = f"openai {self._settings.model} at {self._base_url}, 24 kHz"
        return StageReport("TTS", detail, time.perf_counter() - began, 0.0, 0.0)

    async def _listed(self) -> tuple[str, ...]:
        """The server's voices as far as they can be known: many list them at /audio/voices, which OpenAI does not."""
        if httpx.URL(self._base_url).host == _OPENAI:
            return _OPENAI_VOICES
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                answer = await self._client.get(f"{self._base_url}/audio/voices")
            return _names(answer.json()) if answer.status_code == 200 else ()
        except (TimeoutError, httpx.HTTPError, ValueError):
            return ()  # it speaks, and that is what is wanted of it

    async def synthesize(
        self, text: str, *, slack_s: float = 0.0, voice: str = "", speed: float | None = None
    ) -> AsyncGenerator[Pcm, None]:
        """``slack_s`` is no matter here: the server does its own queueing and knows nothing of our listeners."""
        name = known_voice(voice, self._voices, self.default_voice)
        if not any(char.isalnum() for char in text):
            return
        if self._open >= self._settings.max_waiting:
            raise Overloaded(f"{self._open} clauses wait for {self._base_url} (tts.max_waiting).")
        self._open += 1
        try:
            odd = b""
            async with aclosing(self._bytes(text, name, speed or self._settings.speed)) as received:
                async for data in received:
                    data = odd + data
                    odd = data[len(data) & ~1 :]  # a chunk of the network may end inside a sample
                    if len(data) > 1:
                        yield np.frombuffer(data[: len(data) & ~1], "<i2").astype(np.int16)
        finally:
            self._open -= 1

    async def _bytes(self, text: str, voice: str, speed: float) -> AsyncGenerator[bytes, None]:
        body = {
            "model": self._settings.model,
            "voice": voice,
            "input": text,
            "response_format": "pcm",
            "speed": min(SPEEDS[1], max(SPEEDS[0], speed)),
        }
        request = self._client.build_request("POST", f"{self._base_url}/audio/speech", json=body)
        answer: httpx.Response | None = None
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                answer = await self._client.send(request, stream=True)
                if answer.status_code != 200:
                    raise _refusal(self._base_url, answer.status_code, await answer.aread())
            chunks = answer.aiter_bytes()  # as they arrive: the first sound waits for no more
            while True:
                async with asyncio.timeout(self._settings.timeout_s):
                    data = await anext(chunks, None)
                if data is None:
                    return
                yield data
        except TimeoutError:
            limit_s = self._settings.timeout_s
            raise StageTimeout(f"{self._base_url} sent no sound for {limit_s:.1f} s (tts.timeout_s).") from None
        except httpx.HTTPError as error:
            raise StageUnavailable(f"{self._base_url} failed: {str(error) or type(error).__name__}") from error
        finally:
            if answer is not None:
                await answer.aclose()

    async def close(self) -> None:
        await self._client.aclose()


def _names(body: Any) -> tuple[str, ...]:
    """Of ``{"voices": [...]}`` or the bare list; entries are names, or objects with an ``id`` or a ``name``."""
    entries = body.get("voices") if isinstance(body, dict) else body
    if not isinstance(entries, list):
        return ()
    named = [entry.get("id") or entry.get("name") if isinstance(entry, dict) else entry for entry in entries]
    return tuple(dict.fromkeys(name for name in named if isinstance(name, str) and name))[:_MAX_VOICES]


def _refusal(base_url: str, status: int, body: bytes) -> StageError:
    text = body[:300].decode("utf-8", "replace").strip()
    if status in (429, 503):
        return Overloaded(f"{base_url} is overloaded ({status}): {text}")
    if status >= 500:
        return StageUnavailable(f"{base_url} answered {status}: {text}")
    if status in (401, 403):
        return StageError(f"{base_url} refuses the key ({status}): set tts.api_key")
    return StageError(f"{base_url} answered {status}; check tts.base_url, tts.model and tts.voice: {text}")
