"""The assistant's track in virtual time: its beat, its stalls, its end."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from aiortc.mediastreams import MediaStreamError

from app.audio.frames import OUTPUT_FRAME, OUTPUT_RATE_HZ
from app.audio.playout import Playout
from app.transports.webrtc.opus import SpeechDecoder
from app.transports.webrtc.outbound import PacedTrack
from tests.kit.virtual_time import run_virtual


def test_packets_leave_every_20_ms_however_long_the_sending_takes() -> None:
    async def main() -> None:
        track = PacedTrack(Playout().read)
        loop = asyncio.get_running_loop()
        times, stamps = [], []
        for index in range(200):
            packet = await track.recv()
            times.append(loop.time())
            stamps.append(packet.pts)
            await asyncio.sleep(0.001 * (index % 15))  # the sender's own work
        assert np.diff(times) == pytest.approx(np.full(199, 0.02), abs=1e-6)
        assert stamps == [index * OUTPUT_FRAME for index in range(200)]

    run_virtual(main())


def test_all_tracks_keep_one_beat() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        beats: set[int] = set()

        async def read(after_s: float) -> None:
            await asyncio.sleep(after_s)
            track = PacedTrack(Playout().read)
            for _ in range(5):
                await track.recv()
                beats.add(round(loop.time() * 1e6) % 20_000)

        await asyncio.gather(*(read(0.0073 * index) for index in range(8)))
        assert len(beats) == 1

    run_virtual(main())


def test_after_a_standstill_the_time_is_skipped_and_not_sent_in_a_burst() -> None:
    async def main() -> None:
        track = PacedTrack(Playout().read)
        loop = asyncio.get_running_loop()
        for _ in range(5):
            packet = await track.recv()
        before, at = packet.pts or 0, loop.time()
        loop.now += 2.0  # type: ignore[attr-defined]
        packets = [await track.recv() for _ in range(5)]
        assert loop.time() - at > 2.0 + 2 * 0.02
        elapsed = round((loop.time() - at) * OUTPUT_RATE_HZ)
        assert (packets[-1].pts or 0) - before == pytest.approx(elapsed, abs=3 * OUTPUT_FRAME)

    run_virtual(main())


def test_what_the_playout_holds_is_what_is_heard_and_counted() -> None:
    async def main() -> None:
        played: list[int] = []
        playout = Playout(on_played=lambda generation, samples: played.append(samples))
        track, decoder = PacedTrack(playout.read), SpeechDecoder()
        tone = (8000 * np.sin(2 * np.pi * 500 * np.arange(OUTPUT_RATE_HZ // 2) / OUTPUT_RATE_HZ)).astype(np.int16)
        playout.begin(1)
        playout.write(1, tone)
        playout.finish(1)
        sound = np.concatenate([decoder.decode(bytes(await track.recv())) for _ in range(30)])
        assert played[-1] == len(tone)
        loud = np.flatnonzero(np.abs(sound.astype(int)) > 2000)
        assert loud[0] < 300
        assert loud[-1] - loud[0] == pytest.approx(len(tone), rel=0.02)

    run_virtual(main())


async def test_a_stopped_track_gives_no_more() -> None:
    track = PacedTrack(Playout().read)
    track.stop()
    with pytest.raises(MediaStreamError):
        await track.recv()
