"""Wake words: nothing that was said before one leaves this module.

The models of microWakeWord (https://github.com/kahrendt/microWakeWord), as the ``pymicro-wakeword`` package carries them:
networks made for microcontrollers, 0.1 ms for 20 ms of sound, nothing to download.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from app.audio.frames import OUTPUT_RATE_HZ, Pcm
from app.errors import ConfigError, ParleyError
from app.transports.microphone.seat import SoundPort

_KEPT_FRAMES = 100
"""2 s of what follows the word, while the session opens."""
_LATE_FRAMES = 4
"""The word is noticed 80 to 100 ms after its end, when the next one may have begun."""
_SOFT = 1500.0
"""Peak of a tone (of 32768): -27 dBFS."""


def wake_words() -> dict[str, str]:
    """Name in the package by the name that people use ("hey jarvis"). Raises ConfigError without the package."""
    return {model.value.replace("_", " "): model.value for model in _package().Model}


class WakeWord:
    """Listens for one word."""

    def __init__(self, word: str) -> None:
        """Raises ConfigError for a word that is not known, or without the package."""
        known = wake_words()
        wanted = " ".join(word.lower().replace("_", " ").split())
        if wanted not in known:
            raise ConfigError(f"audio.wake_word: {word!r} is not among {', '.join(known)}.")
        self.word = wanted
        package = _package()
        self._new_features: Callable[[], Any] = package.MicroWakeWordFeatures
        self._features = self._new_features()
        self._model: Any = package.MicroWakeWord.from_builtin(package.Model(known[wanted]))

    def heard(self, frame: Pcm) -> bool:
        """Whether the word ends in ``frame`` (int16, 16 kHz, 20 ms) or just before."""
        said = False
        for features in self._features.process_streaming(frame.tobytes()):
            said = bool(self._model.process_streaming(features)) or said
        return said

    def forget(self) -> None:
        """Begin anew: what was heard so far, the word itself, is not heard again. About 2 ms."""
        self._features = self._new_features()
        self._model.reset()


class Waking:
    """A SoundPort that opens a session when the word is heard and sleeps again when that is over.

    ``open_session`` is awaited after the word; what is said meanwhile is kept for the session. ``on_change`` hears
    whether it is awake, and ``on_error`` why a session could not be opened. All of it is on the loop.
    """

    def __init__(
        self,
        word: WakeWord,
        open_session: Callable[[], Awaitable[SoundPort]],
        *,
        on_change: Callable[[bool], None],
        on_error: Callable[[ParleyError], None],
    ) -> None:
        self._word = word
        self._open_session = open_session
        self._on_change = on_change
        self._on_error = on_error
        self._session: SoundPort | None = None
        self._conversation: asyncio.Task[None] | None = None
        self._kept: deque[Pcm] = deque(maxlen=_KEPT_FRAMES)
        self._last: deque[Pcm] = deque(maxlen=_LATE_FRAMES)
        self._tone: Pcm = np.zeros(0, np.int16)
        self._closed = asyncio.Event()

    @property
    def awake(self) -> bool:
        return self._conversation is not None

    def push_audio(self, pcm: Pcm) -> None:
        if self._session is not None:
            self._session.push_audio(pcm)
        elif self._conversation is not None:
            self._kept.append(pcm)
        elif not self._closed.is_set():
            self._last.append(pcm)
            if self._word.heard(pcm):
                self.wake()
                self._kept.extend(self._last)
                self._last.clear()

    def pull_audio(self, count: int) -> Pcm:
        if len(self._tone):
            now, self._tone = self._tone[:count], self._tone[count:]
            return np.pad(now, (0, count - len(now)))
        return np.zeros(count, np.int16) if self._session is None else self._session.pull_audio(count)

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def wake(self) -> None:
        """As if the word had been said."""
        if self._conversation is None:
            self._kept.clear()
            self._tone = _tone(rising=True)
            self._conversation = asyncio.get_running_loop().create_task(self._converse())

    async def close(self) -> None:
        """For good. Idempotent; whoever opened the sessions closes them."""
        self._closed.set()
        if self._conversation is not None:
            self._conversation.cancel()
            await asyncio.gather(self._conversation, return_exceptions=True)

    async def _converse(self) -> None:
        self._on_change(True)
        try:
            session = await self._open_session()
            while self._kept:
                session.push_audio(self._kept.popleft())
            self._session = session
            await session.wait_closed()
        except ParleyError as error:
            self._on_error(error)
        finally:
            self._session = None
            self._kept.clear()
            if not self._closed.is_set():
                self._word.forget()
                self._tone = _tone(rising=False)
                self._conversation = None
                self._on_change(False)


def _package() -> Any:
    try:
        import pymicro_wakeword
    except (ImportError, OSError) as error:
        raise ConfigError(
            f"Wake words need the package pymicro-wakeword ({error}): install it with `pip install 'parley[wake]'` "
            "(or `.venv/bin/pip install pymicro-wakeword`), or talk without --wake-word."
        ) from error
    return pymicro_wakeword


def _tone(*, rising: bool) -> Pcm:
    """Two soft notes of 70 ms, a fourth apart: up for "I listen", down for "I sleep"."""
    time = np.arange(OUTPUT_RATE_HZ * 70 // 1000) / OUTPUT_RATE_HZ
    swell = np.sin(np.pi * np.arange(len(time)) / len(time)) ** 2
    pitches = (660.0, 880.0) if rising else (880.0, 660.0)
    notes = [_SOFT * swell * np.sin(2 * np.pi * hz * time) for hz in pitches]
    return np.concatenate(notes).astype(np.int16)
