"""What came out of the loudspeaker, frame by frame, beside what the same words sound like when nobody disturbs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.audio.frames import FRAME_MS, OUTPUT_FRAME, Pcm
from app.bench.turns.caller import AUDIBLE, Log
from app.dialogue.host import Host
from app.dialogue.ports import WireEvent
from app.errors import StageTimeout

_REFERENCE_S = 20.0
"""Longest wait for the greeting that cases are compared with."""
_SOUNDS_RMS = 40.0
"""Quieter frames of the undisturbed greeting (-58 dBFS: its pauses) say nothing about how loud it is played."""
_SAME_DB = 0.5
DUCKED_DB = -15.0


@dataclass(frozen=True, slots=True)
class Heard:
    """Per tick, ``[k]``: whether the assistant could be heard, which of its replies was due (1 is the first; 0 before),
    and how loud the first was against undisturbed, dB: -inf while it was kept silent, nan where that cannot be told."""

    audible: NDArray[np.bool_]
    reply: NDArray[np.int64]
    gain_db: NDArray[np.float64]

    def ducked_tick(self, since: int) -> int | None:
        """The first tick from ``since`` on at which the first reply is at least 15 dB down, or silent.

        A pause of the reply right before belongs to it: nobody can hear how loud that is.
        """
        down = np.flatnonzero(self.gain_db[since:] <= DUCKED_DB)
        if not len(down):
            return None
        tick = since + int(down[0])
        while tick > since and np.isnan(self.gain_db[tick - 1]):
            tick -= 1
        return tick

    def silent_tick(self, since: int) -> int | None:
        """The first tick from ``since`` on after which nothing more of the first reply is heard."""
        sounding = np.flatnonzero(self.audible & (self.reply == 1))
        if not len(sounding) or sounding[-1] + 1 >= len(self.audible):
            return None
        return max(since, int(sounding[-1]) + 1)

    @property
    def held_ms(self) -> int:
        """The longest that the first reply was kept silent and then went on."""
        longest = run = 0
        for silent, sounds in zip(np.isneginf(self.gain_db), self.audible, strict=True):
            if silent:
                run += 1
            elif sounds:
                longest, run = max(longest, run), 0
        return longest * FRAME_MS


def listen(log: Log, reference: Pcm) -> Heard:
    """``reference`` is the first reply undisturbed, int16 ``[n]`` at 48 kHz; empty if it is not to be compared."""
    ticks = len(log.ticks_s)
    frames = log.assistant[: ticks * OUTPUT_FRAME].reshape(ticks, OUTPUT_FRAME)
    audible: NDArray[np.bool_] = np.abs(frames.astype(np.int32)).max(axis=1) > AUDIBLE
    restarts = np.concatenate([[False], np.diff(log.played) < 0])
    reply = np.where(np.cumsum(audible) > 0, 1, 0) + np.cumsum(restarts)
    gain_db = np.full(ticks, np.nan)
    for tick in range(ticks - 1):
        if reply[tick] != 1 or reply[tick + 1] != 1:
            continue
        first, end = int(log.played[tick]), int(log.played[tick + 1])
        undisturbed = _rms(reference[first:end])
        if end > first and undisturbed > _SOUNDS_RMS:
            gain_db[tick] = 20.0 * np.log10(max(_rms(frames[tick, : end - first]), 1e-3) / undisturbed)
        elif end == first and end < len(reference):
            gain_db[tick] = -np.inf
    if not _same_voice(gain_db[: int(np.searchsorted(log.ticks_s, log.onset_s))]):
        gain_db[:] = np.nan
    return Heard(audible, reply, gain_db)


def _same_voice(gain_db: NDArray[np.float64]) -> bool:
    """Whether a reply that nobody had disturbed yet was the reference; some voices never say a thing twice alike."""
    known = gain_db[np.isfinite(gain_db)]
    return not len(known) or float(np.median(np.abs(known))) < _SAME_DB


async def undisturbed(host: Host) -> Pcm:
    """The greeting of ``host``'s sessions, int16 ``[n]`` at 48 kHz, read as fast as it is made. Raises StageTimeout."""
    done = asyncio.Event()

    def take(event: WireEvent) -> None:
        if event["type"] == "response.done":
            done.set()

    session = (await host.open(take, transport="bench")).session
    sound: list[Pcm] = []
    try:
        async with asyncio.timeout(_REFERENCE_S):
            while not done.is_set():
                before = session.playout.played_samples
                frame = session.playout.read(OUTPUT_FRAME)
                sound.append(frame[: session.playout.played_samples - before])
                await asyncio.sleep(0.0 if len(sound[-1]) else 0.005)
    except TimeoutError:
        raise StageTimeout(f"The greeting was not spoken within {_REFERENCE_S:.0f} s.") from None
    finally:
        await session.close("done")
    return np.concatenate(sound)


def _rms(sound: Pcm) -> float:
    return float(np.sqrt((sound.astype(np.float64) ** 2).mean())) if len(sound) else 0.0
