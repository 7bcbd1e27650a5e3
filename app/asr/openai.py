"""Any server that offers OpenAI's ``/v1/audio/transcriptions`` (whisper.cpp, speaches, vLLM, OpenAI)."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from app.asr.base import Transcript
from app.asr.known import spelled_as
from app.asr.partials import MAX_PARTIAL_S, PartialBudget
from app.asr.segments import last_part
from app.audio.frames import INPUT_RATE_HZ, Pcm
from app.audio.wav import wav_bytes
from app.config.settings import AsrSettings
from app.errors import ConfigError, ModelError, Overloaded, StageError, StageTimeout, StageUnavailable
from app.telemetry.memory import resident_mb
from app.telemetry.stage import StageReport

_CONNECT_S = 3.0
_CONNECT_RETRIES = 1
"""Of a connection that was refused: a server that restarts, or a kept connection it had closed."""


class OpenAIRecognizer:
    """Sends each utterance as one WAV. The server's own guards against noise apply."""

    def __init__(self, settings: AsrSettings) -> None:
        parts = urlsplit(settings.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f'asr.base_url is {settings.base_url!r}; backend "openai" needs one like http://127.0.0.1:8000/v1'
            )
        self._settings = settings
        self._host = parts.netloc.rpartition("@")[2]
        self._waiting = 0
        self._partials = PartialBudget()
        self._client = httpx.AsyncClient(
            base_url=settings.base_url.rstrip("/") + "/",
            headers={"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {},
            timeout=httpx.Timeout(None, connect=_CONNECT_S),
            transport=httpx.AsyncHTTPTransport(retries=_CONNECT_RETRIES),
        )

    @property
    def languages(self) -> tuple[str, ...]:
        return self._settings.languages

    async def load(self) -> StageReport:
        """Transcribe a second of silence: proves address, key and model before the first call.

        Raises ModelError when the server refuses, StageUnavailable or StageTimeout when it does not answer.
        """
        began, memory = time.perf_counter(), resident_mb()
        try:
            await self.transcribe(np.zeros(INPUT_RATE_HZ, np.int16))
        except (StageUnavailable, StageTimeout, Overloaded):
            raise
        except StageError as error:
            raise ModelError(f"{error}; check asr.base_url, asr.model and asr.api_key") from error
        detail = f"openai {self._settings.model} at {self._host}"
        return StageReport("ASR", detail, 0.0, time.perf_counter() - began, resident_mb() - memory)

    async def transcribe(
        self, pcm: Pcm, *, language: str | None = None, expected: str = "", known: str = "", partial: bool = False
    ) -> Transcript:
        """See Recognizer. Raises StageUnavailable, StageTimeout, Overloaded, StageError; each names the host.

        Of a ``partial`` longer than 12 s only the end is sent. ``known`` is not sent: the API's ``prompt`` is for
        what was said BEFORE the sound, and a server may leave out of the text what stands there.
        """
        if partial:
            self._admit_partial()
            pcm = last_part(pcm, MAX_PARTIAL_S)
        if self._waiting >= self._settings.max_waiting:
            raise Overloaded(f"{self._waiting} utterances already wait for {self._host} (asr.max_waiting)")
        if language is None and len(self._settings.languages) == 1:
            language = self._settings.languages[0]
        form = {"model": self._settings.model, "response_format": "json"}
        if language is not None:
            form["language"] = language
        self._waiting += 1
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                response = await self._client.post(
                    "audio/transcriptions", data=form, files={"file": ("speech.wav", wav_bytes(pcm), "audio/wav")}
                )
        except (TimeoutError, httpx.TimeoutException):
            raise StageTimeout(
                f"{self._host} did not transcribe within asr.timeout_s = {self._settings.timeout_s:g} s"
            ) from None
        except httpx.TransportError as error:
            raise StageUnavailable(
                f"the speech recognition server {self._host} cannot be reached ({error or type(error).__name__}); "
                "check asr.base_url and that it runs"
            ) from error
        finally:
            self._waiting -= 1
            if partial:
                self._partials.spent(time.perf_counter() - began)
        body = self._body(response)
        text = spelled_as(known, body["text"].strip())
        return Transcript(text, language or self._language(body.get("language"), expected))

    async def close(self) -> None:
        await self._client.aclose()

    def _admit_partial(self) -> None:
        """Raises Overloaded unless a partial may be sent: the server's time is not ours to see, ours is bounded."""
        if self._waiting:
            raise Overloaded(f"{self._host} is at work; partial transcriptions wait for nobody", retry_after_s=0.2)
        if wait_s := self._partials.wait_s:
            raise Overloaded(f"partial transcriptions have had their share of {self._host}", retry_after_s=wait_s)

    def _language(self, said: object, expected: str) -> str:
        """The code that the server ``said``, if it is one and allowed (some answer with a name: "english")."""
        allowed = self._settings.languages
        if isinstance(said, str) and len(said) == 2 and (not allowed or said in allowed):
            return said
        return expected if expected and (not allowed or expected in allowed) else next(iter(allowed), "en")

    def _body(self, response: httpx.Response) -> dict[str, Any]:
        status = response.status_code
        if status == 429:
            raise Overloaded(f"{self._host} refuses more work (429)", retry_after_s=_seconds(response))
        if status >= 500:
            raise StageUnavailable(f"{self._host} failed with {status}: {response.text[:200]}")
        if status >= 400:
            raise StageError(f"{self._host} refused the request with {status}: {response.text[:200]}")
        try:
            body = response.json()
        except ValueError:
            body = None
        if not isinstance(body, dict) or not isinstance(body.get("text"), str):
            raise StageError(f"{self._host} answered without a transcript: {response.text[:200]!r}")
        return body


def _seconds(response: httpx.Response) -> float:
    """Retry-After in seconds (RFC 9110, section 10.2.3); its date form and nonsense count as 1 s."""
    try:
        return max(0.1, float(response.headers.get("retry-after", 1.0)))
    except ValueError:
        return 1.0
