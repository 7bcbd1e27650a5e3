"""One reply on its way from the language model to the playout: two tasks with a short queue between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from app.audio.frames import OUTPUT_RATE_HZ
from app.audio.playout import Playout
from app.audio.resample import Resampler
from app.dialogue.events import (
    ClauseSound,
    ClauseStarted,
    Event,
    ReplyFailed,
    ReplySoundEnded,
    ReplyText,
    ReplyTextEnded,
)
from app.errors import StageError
from app.llm import Finished, LlmEvent, TextDelta
from app.tts import Clause, Synthesizer
from app.tts.clauses import ClauseSplitter
from app.tts.timing import ClauseTimer

_PIECE_CHARS = 200
"""Text that comes at once is made speakable in pieces, between which others get the event loop: 2 ms each."""
_CLAUSES_AHEAD = 8
"""Text that may wait for the voice. Beyond this the language model's stream is read no further."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a reply is spoken. Empty and None are what the settings say."""

    language: str
    voice: str = ""
    speed: float | None = None


async def write_reply(generation: int, events: AsyncGenerator[LlmEvent, None], post: Callable[[Event], None]) -> None:
    """A reply that is shown and not spoken: post its text, and what became of it."""
    finished = None
    try:
        async with aclosing(events) as stream:
            async for event in stream:
                match event:
                    case TextDelta(text=text, tokens=tokens):
                        post(ReplyText(generation, text, tokens))
                    case Finished():
                        finished = event
    except StageError as error:
        post(ReplyFailed(generation, "llm", error.code, str(error)))
    else:
        post(ReplyTextEnded(generation, finished))


class ReplySpeaker:
    """Speaks the text of one generation and posts what happens. ``run`` ends when all sound is queued."""

    def __init__(
        self, generation: int, manner: Manner, tts: Synthesizer, playout: Playout, post: Callable[[Event], None]
    ) -> None:
        self._generation = generation
        self._manner = manner
        self._tts = tts
        self._playout = playout
        self._post = post
        self._clauses: asyncio.Queue[Clause | None] = asyncio.Queue(_CLAUSES_AHEAD)

    async def run(self, events: AsyncGenerator[LlmEvent, None]) -> None:
        """Failures of a stage become ReplyFailed; cancelling cancels both stages."""
        async with asyncio.TaskGroup() as group:
            voice = group.create_task(self._voice())
            if not await self._read(events):
                voice.cancel()

    async def _read(self, events: AsyncGenerator[LlmEvent, None]) -> bool:
        splitter = ClauseSplitter(self._manner.language)
        finished = None
        try:
            async with aclosing(events) as stream:
                async for event in stream:
                    match event:
                        case TextDelta(text=text, tokens=tokens):
                            self._post(ReplyText(self._generation, text, tokens))
                            for start in range(0, len(text), _PIECE_CHARS):
                                for clause in splitter.feed(text[start : start + _PIECE_CHARS]):
                                    await self._clauses.put(clause)
                                if len(text) > _PIECE_CHARS:
                                    await asyncio.sleep(0)
                        case Finished():
                            finished = event
        except StageError as error:
            self._post(ReplyFailed(self._generation, "llm", error.code, str(error)))
            return False
        self._post(ReplyTextEnded(self._generation, finished))
        for clause in splitter.finish():
            await self._clauses.put(clause)
        await self._clauses.put(None)
        return True

    async def _voice(self) -> None:
        resampler = Resampler(self._tts.rate_hz, OUTPUT_RATE_HZ)
        queued = 0
        index = 0
        try:
            while (clause := await self._clauses.get()) is not None:
                if not clause.spoken:
                    continue
                await self._playout.room()
                self._post(ClauseStarted(self._generation))
                timer = ClauseTimer(clause, OUTPUT_RATE_HZ, first_sample=queued)
                slack_s = self._playout.queued_samples / OUTPUT_RATE_HZ
                sound = self._tts.synthesize(
                    clause.spoken, slack_s=slack_s, voice=self._manner.voice, speed=self._manner.speed
                )
                async with aclosing(sound) as chunks:
                    async for chunk in chunks:
                        pcm = resampler.process(chunk)
                        queued += len(pcm)
                        timer.add(pcm)
                        self._playout.write(self._generation, pcm)
                        self._post(ClauseSound(self._generation, index, timer.words(), queued, final=False))
                self._post(ClauseSound(self._generation, index, timer.finish(), queued, final=True))
                index += 1
        except StageError as error:
            self._post(ReplyFailed(self._generation, "tts", error.code, str(error)))
            return
        tail = resampler.flush()
        self._playout.write(self._generation, tail)
        self._playout.finish(self._generation)
        self._post(ReplySoundEnded(self._generation, queued + len(tail)))
