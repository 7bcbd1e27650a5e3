from __future__ import annotations

import asyncio
import gc
import os
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from random import Random

import numpy as np
import pytest
from aiortc import RTCPeerConnection, RTCRtpReceiver
from aiortc.jitterbuffer import JitterBuffer

from app.audio import OUTPUT_RATE_HZ, Pcm
from app.audio.frames import FRAME_MS
from app.config import Settings
from app.errors import InvalidRequest, StageUnavailable
from app.transports.webrtc import WebRtcCalls
from app.transports.webrtc import receiver as patched
from tests.kit.browser import loopback_media
from tests.kit.scripted_session import ScriptedHost, ScriptedSession
from tests.kit.webrtc_client import WebRtcClient

RATE_HZ = 48_000


@pytest.fixture(autouse=True)
def _loopback() -> Iterator[None]:
    with loopback_media():
        yield


def tone(seconds: float, hertz: float = 1000.0, rate_hz: int = RATE_HZ) -> Pcm:
    return (8000 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate_hz)) / rate_hz)).astype(np.int16)


def frequency(pcm: Pcm, rate_hz: int) -> float:
    spectrum = np.abs(np.fft.rfft(pcm * np.hanning(len(pcm))))
    return float(spectrum.argmax()) * rate_hz / len(pcm)


class Listener(ScriptedHost):
    """Keeps what the client's microphone sent, with the time of arrival of each frame."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[Pcm] = []
        self.times: list[float] = []

    async def open(self, send, *, transport, options=None):  # type: ignore[no-untyped-def]
        seat = await super().open(send, transport=transport, options=options)
        take = seat.push_audio

        def push(pcm: Pcm) -> None:
            self.frames.append(pcm.copy())
            self.times.append(asyncio.get_running_loop().time())
            take(pcm)

        seat.push_audio = push
        return seat


def test_aiortc_internals_are_what_the_replacement_expects() -> None:
    async def check() -> None:
        connection = RTCPeerConnection()
        receiver = connection.addTransceiver("audio").receiver
        assert isinstance(receiver, RTCRtpReceiver)
        assert isinstance(getattr(receiver, patched._BUFFER), JitterBuffer)
        assert asyncio.iscoroutinefunction(getattr(receiver, patched._HANDLER))
        assert isinstance(getattr(receiver, patched._DECODER_QUEUE), queue.Queue)
        await connection.close()

    asyncio.run(check())


async def test_a_tone_keeps_its_pitch_both_ways() -> None:
    host = Listener()
    calls = WebRtcCalls(host, Settings().server)
    async with WebRtcClient(calls.offer, tone(3.0)) as client:
        session: ScriptedSession = host.sessions[-1]
        session.playout.begin(1)
        session.playout.write(1, tone(2.0, 700.0))
        await asyncio.sleep(2.0)
        sent, heard = (
            np.concatenate(host.frames)[8000:24000],
            client.sound()[OUTPUT_RATE_HZ // 2 : OUTPUT_RATE_HZ * 3 // 2],
        )
        assert frequency(sent, 16_000) == pytest.approx(1000.0, rel=0.01)
        assert frequency(heard, RATE_HZ) == pytest.approx(700.0, rel=0.01)
    await calls.close_all()


async def test_a_microphone_of_any_rate_and_layout_is_heard_at_its_pitch() -> None:
    kinds = [(rate_hz, channels) for rate_hz in (8_000, 16_000, 24_000, 44_100, 48_000) for channels in (1, 2)]
    hosts = [Listener() for _ in kinds]

    async def speak(host: Listener, rate_hz: int, channels: int) -> None:
        calls = WebRtcCalls(host, Settings().server)
        async with WebRtcClient(calls.offer, tone(2.0, rate_hz=rate_hz), rate_hz=rate_hz, channels=channels):
            async with asyncio.timeout(15):
                while len(host.frames) < 75:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        await calls.close_all()

    await asyncio.gather(*(speak(host, *kind) for host, kind in zip(hosts, kinds, strict=True)))
    pitches = {
        kind: frequency(np.concatenate(host.frames)[8000:24000], 16_000)
        for host, kind in zip(hosts, kinds, strict=True)
    }
    assert pitches == {kind: pytest.approx(1000.0, rel=0.01) for kind in kinds}


async def test_with_many_talking_at_once_no_frame_grows_old() -> None:
    host = Listener()
    calls = WebRtcCalls(host, Settings().server)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(WebRtcClient(calls.offer, tone(5.0))) for _ in range(8)]
        for session in host.sessions:
            session.play_tone(seconds=4.0)
        ages = []
        for _ in range(30):
            await asyncio.sleep(0.1)
            # Age in what the microphones have sent, not in time: how fast this machine is does not matter here.
            ages += [
                (client.packets - session.frames) * FRAME_MS
                for client, session in zip(clients, host.sessions, strict=True)
            ]
        assert len(host.frames) > 8 * 50
        assert max(ages) < 100, ages
    await calls.close_all()


async def test_a_default_executor_that_is_busy_does_not_delay_what_is_spoken() -> None:
    host = Listener()
    calls = WebRtcCalls(host, Settings().server)
    async with WebRtcClient(calls.offer, tone(4.0)):
        session: ScriptedSession = host.sessions[-1]
        await asyncio.sleep(0.3)
        release = threading.Event()
        loop = asyncio.get_running_loop()
        blocked = [loop.run_in_executor(None, release.wait, 2.0) for _ in range(64)]
        session.play_tone(seconds=3.0)
        queued = session.playout.queued_samples
        await asyncio.sleep(1.0)
        played = queued - session.playout.queued_samples
        release.set()
        await asyncio.gather(*blocked)
        assert played > 0.5 * OUTPUT_RATE_HZ
    await calls.close_all()


def python_threads(name: str) -> int:
    return sum(name in thread.name for thread in threading.enumerate())


async def test_no_thread_is_kept_for_a_call() -> None:
    host = ScriptedHost()
    calls = WebRtcCalls(host, Settings().server)
    async with AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(WebRtcClient(calls.offer, tone(1.0)))
        await asyncio.sleep(0.2)
        assert python_threads("audio-decoder") <= 4, "those of the four clients, none of the server's"
    await calls.close_all()


async def test_a_call_outlives_a_loop_that_stands_still_again_and_again() -> None:
    host = Listener()
    calls = WebRtcCalls(host, Settings().server)
    async with WebRtcClient(calls.offer, tone(9.0)):
        for stall_s in (1.0, 1.5):
            await asyncio.sleep(0.3)
            time.sleep(stall_s)  # noqa: ASYNC251 (this is the fault)
        await asyncio.sleep(0.3)
        before = len(host.frames)
        await asyncio.sleep(1.0)
        assert calls.active == 1
        assert len(host.frames) - before > 25
    await calls.close_all()


class SlowHost(ScriptedHost):
    """Opening a session takes until ``go``."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    async def open(self, send, *, transport, options=None):  # type: ignore[no-untyped-def]
        session = await super().open(send, transport=transport, options=options)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            await session.close("cancelled")
            raise
        return session


async def an_offer() -> tuple[RTCPeerConnection, str]:
    connection = RTCPeerConnection()
    connection.addTransceiver("audio")
    await connection.setLocalDescription(await connection.createOffer())
    return connection, connection.localDescription.sdp


async def test_a_call_that_is_being_opened_is_ended_too_when_the_server_stops() -> None:
    host = SlowHost()
    calls = WebRtcCalls(host, Settings().server)
    connection, sdp = await an_offer()
    offering = asyncio.create_task(calls.offer(sdp, "offer"))
    async with asyncio.timeout(5):
        while not host.sessions:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await calls.close_all()
    with pytest.raises(StageUnavailable, match="stopping"):
        await offering
    assert calls.active == host.active == 0
    with pytest.raises(StageUnavailable):
        await calls.offer(sdp, "offer")
    await connection.close()


async def test_a_client_that_gives_up_while_its_call_is_opened_leaves_nothing() -> None:
    host = SlowHost()
    calls = WebRtcCalls(host, Settings().server)
    connection, sdp = await an_offer()
    offering = asyncio.create_task(calls.offer(sdp, "offer"))
    await asyncio.sleep(0.1)
    offering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await offering
    assert calls.active == host.active == 0
    await calls.close_all()
    await connection.close()


@pytest.mark.parametrize(
    "lose",
    [
        lambda index, random=Random(5): 60 < index < 140 and random.random() < 0.05,
        lambda index: 90 <= index < 100,
    ],
    ids=["5 % random loss", "a burst of 200 ms"],
)
async def test_after_loss_the_latency_is_what_it_was(lose) -> None:  # type: ignore[no-untyped-def]
    pulses = np.zeros(4 * RATE_HZ, np.int16)
    starts = [1.0, 3.0]
    for start in starts:
        pulses[int(start * RATE_HZ) :][: RATE_HZ // 10] = tone(0.1)
    host = Listener()
    calls = WebRtcCalls(host, Settings().server)
    async with WebRtcClient(calls.offer, pulses, lose):
        await asyncio.sleep(4.0)
        loud = [index for index, frame in enumerate(host.frames) if np.abs(frame.astype(np.int32)).max() > 2000]
        first = loud[0]
        second = next(index for index in loud if index > first + 50)
        apart_in_samples = (second - first) * 0.02
        apart_in_time = host.times[second] - host.times[first]
        assert apart_in_samples == pytest.approx(2.0, abs=0.06), "gaps are filled, so the stream's clock is right"
        assert apart_in_time == pytest.approx(2.0, abs=0.04), "the latency is back within 40 ms of what it was"
    await calls.close_all()


async def test_messages_that_make_no_sense_are_answered_and_end_nothing() -> None:
    host = ScriptedHost()
    calls = WebRtcCalls(host, Settings().server)
    async with WebRtcClient(calls.offer, tone(0.1)) as client:
        for message in ("{nonsense", "[1, 2]", b"\x00\x01", "x" * 70_000, '"text"'):
            client.send(message)
        client.send('{"type": "parley.ping", "id": 7}')
        async with asyncio.timeout(5):
            while not any(event["type"] == "parley.pong" for event in client.events):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert sum(event["type"] == "error" for event in client.events) >= 5
        assert calls.active == 1
    await calls.close_all()


@pytest.mark.parametrize(
    "sdp", ["", "v=0", "v=0\r\nm=audio nonsense\r\n", "v=0\r\nm=audio opus/48000\r\n", "v=0\r\n" + "a" * 70_000]
)
async def test_an_offer_that_cannot_be_used_is_refused_and_leaves_nothing(sdp: str) -> None:
    host = ScriptedHost()
    calls = WebRtcCalls(host, Settings().server)
    with pytest.raises(InvalidRequest):
        await calls.offer(sdp, "offer")
    assert calls.active == 0
    assert host.active == 0


async def test_nothing_queues_between_the_network_and_the_session() -> None:
    host = Listener()
    calls = WebRtcCalls(host, Settings().server)
    async with WebRtcClient(calls.offer, tone(3.0)):
        await asyncio.sleep(1.0)
        call = next(iter(calls._calls.values()))
        receiver = next(item.receiver for item in call._connection.getTransceivers())
        assert host.frames
        assert receiver.track._queue.qsize() <= 1, "nobody reads aiortc's track: only its end may lie there"
        assert getattr(receiver, patched._DECODER_QUEUE).qsize() <= 1
    await calls.close_all()


async def test_a_call_whose_client_never_connects_is_dropped() -> None:
    host = ScriptedHost()
    settings = Settings.model_validate({"server": {"connect_timeout_s": 0.5}})
    calls = WebRtcCalls(host, settings.server)
    connection = RTCPeerConnection()
    connection.addTransceiver("audio")
    await connection.setLocalDescription(await connection.createOffer())
    await calls.offer(connection.localDescription.sdp, "offer")
    async with asyncio.timeout(8):
        while calls.active:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert host.active == 0
    await connection.close()


@pytest.mark.slow
async def test_forty_calls_leave_nothing_behind() -> None:
    host = ScriptedHost()
    calls = WebRtcCalls(host, Settings().server)

    async def cycle() -> None:
        async with WebRtcClient(calls.offer, tone(0.2)) as client:
            await asyncio.sleep(0.05)
            await calls.hang_up(client.call_id)

    def held() -> tuple[int, int, int]:
        gc.collect()
        return len(asyncio.all_tasks()), threading.active_count(), len(os.listdir("/proc/self/fd"))

    for _ in range(5):
        await cycle()
    await asyncio.sleep(0.3)
    before = held()
    for _ in range(35):
        await cycle()
    await asyncio.sleep(0.5)
    after = held()
    assert calls.active == 0
    assert host.active == 0
    assert all(later <= earlier + 2 for earlier, later in zip(before, after, strict=True)), (before, after)
