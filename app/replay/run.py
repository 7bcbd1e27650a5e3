"""Runs a saved turn again: the same session code, the same sound at the same times."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.audio.frames import FRAME_MS, INPUT_FRAME, INPUT_RATE_HZ, OUTPUT_FRAME, Pcm
from app.config import Settings
from app.dialogue.options import SessionOptions
from app.dialogue.recording import Past
from app.dialogue.session import Session
from app.dialogue.stages import Stages
from app.dialogue.state import Item
from app.replay.bundle import Bundle, SoundFacts
from app.replay.course import Course, Timed, course, saved_course

_FRAME_S = FRAME_MS / 1000


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of it. ``pcm`` is all that was said, int16 at 48 kHz."""

    course: Course
    events: tuple[Timed, ...]
    pcm: Pcm
    history: tuple[Item, ...]
    ended: bool
    """False: it was given up, because it took longer than it may."""


class Replay:
    """One run of ``bundle`` on ``stages``. ``run`` belongs on an event loop, of real or of virtual time."""

    def __init__(
        self,
        bundle: Bundle,
        settings: Settings,
        *,
        limit_s: float,
        on_time: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """It is given up ``limit_s`` after the end of the saved sound. ``on_time`` is told how far it has come."""
        self._bundle = bundle
        self._settings = settings
        self._limit_s = limit_s
        self._on_time = on_time
        self._events: list[Timed] = []
        self._said: list[Pcm] = []
        self._heard_all = False
        self._began_s = 0.0
        self._broken_off = saved_course(bundle).status == "cancelled"
        """What the user said then goes on in the next turn, which is not of this bundle."""

    def clock(self) -> float:
        """Seconds since the turn's sound began."""
        return asyncio.get_running_loop().time() - self._began_s

    async def run(self, stages: Stages) -> Replayed:
        loop = asyncio.get_running_loop()
        self._began_s = loop.time()
        session = Session(
            "sess_replay", stages, self._settings, self._take, self._options(stages), past=_past(self._bundle)
        )
        await session.started()
        self._began_s = loop.time()
        workers = [
            loop.create_task(work)
            for work in (self._hear(session), self._listen(session), self._type(session), self._watch())
        ]
        ended = True
        try:
            async with asyncio.timeout(self._bundle.seconds + self._limit_s):
                while not self._over(session):  # noqa: ASYNC110 - what ends it is a state, not an event
                    await asyncio.sleep(_FRAME_S)
        except TimeoutError:
            ended = False
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            events, history = tuple(self._events), session.state.history
            await session.close("replayed")
        return Replayed(
            course(events, self._answer()),
            events,
            np.concatenate([np.zeros(0, np.int16), *self._said]),
            history,
            ended,
        )

    def _options(self, stages: Stages) -> SessionOptions:
        options = SessionOptions(**self._bundle.facts.options.model_dump())
        known = not options.voice or options.voice in stages.tts.voices or not stages.tts.voices
        return options if known else SessionOptions(**{**self._bundle.facts.options.model_dump(), "voice": ""})

    def _take(self, event: Mapping[str, Any]) -> None:
        self._events.append((self.clock(), event))

    # What the client did

    async def _hear(self, session: Session) -> None:
        sound = self._bundle.facts.sound.get("in")
        if sound is None or not len(self._bundle.heard):
            self._heard_all = True
            return
        pcm = self._bundle.heard
        if not self._broken_off:  # what was said after the reply is the next turn's
            pcm = pcm[: max(0, int((self._bundle.facts.done_s - _starts_s(sound)) * INPUT_RATE_HZ))]
        pcm = np.pad(pcm, (0, -len(pcm) % INPUT_FRAME))
        silence = np.zeros(INPUT_FRAME, np.int16)
        frames: Iterator[Pcm] = itertools.chain(pcm.reshape(-1, INPUT_FRAME), itertools.repeat(silence))
        for number, due_s, frame in zip(itertools.count(1), _due(sound, INPUT_FRAME), frames, strict=False):
            await self._until(due_s)
            session.push_audio(frame)
            self._heard_all = number * INPUT_FRAME >= len(pcm)

    async def _listen(self, session: Session) -> None:
        sound = self._bundle.facts.sound.get("out") or SoundFacts(rate_hz=48_000, samples=0)
        for due_s in _due(sound, OUTPUT_FRAME):
            await self._until(due_s)
            self._said.append(session.playout.read(OUTPUT_FRAME))

    async def _type(self, session: Session) -> None:
        for event in self._bundle.events:
            if event.side == "client" and event.at_s <= self._bundle.facts.done_s:
                await self._until(event.at_s)
                session.receive(event.event)

    async def _watch(self) -> None:
        while True:
            self._on_time(self.clock())
            await asyncio.sleep(0.1)

    async def _until(self, at_s: float) -> None:
        await asyncio.sleep(max(0.0, at_s - self.clock()))

    # How it ends

    def _done(self) -> list[str]:
        return [event["response"]["id"] for _, event in self._events if event["type"] == "response.done"]

    def _over(self, session: Session) -> bool:
        """All has been said on one side, and answered on the other; or the session has ended."""
        if session.state.closed:
            return True
        done = bool(self._done()) and self._heard_all and self.clock() >= self._bundle.facts.done_s
        return done and (session.state.phase == "listening" or self._broken_off)

    def _answer(self) -> str:
        """The reply that is compared with the saved one: of several the last, because it answers the whole."""
        done = self._done()
        if not done:
            return ""
        return done[0] if self._broken_off else done[-1]


def _due(sound: SoundFacts, frame: int) -> Iterator[float]:
    """When each frame came (or went) then; after the end, one every 20 ms."""
    clock = [*sound.clock] or [(0, 0.0)]
    at_s = clock[0][1]
    for start in itertools.count(0, frame):
        while len(clock) > 1 and clock[1][0] <= start:
            clock.pop(0)
        sample, block_s = clock[0]
        at_s = max(at_s, block_s + (start - sample) / sound.rate_hz)
        yield at_s


def _starts_s(sound: SoundFacts) -> float:
    return sound.clock[0][1] if sound.clock else 0.0


def _past(bundle: Bundle) -> Past:
    facts = bundle.facts
    history = tuple(Item(**item.model_dump()) for item in facts.history)
    start = min(facts.memory.start, len(history))
    return Past(
        history,
        items=max(facts.items, len(history)),
        start=start,
        summary=facts.memory.summary,
        summarised_to=min(facts.memory.summarised_to, start),
        left_out=facts.memory.left_out,
    )
