"""The real transport on a virtual sound card: PortAudio, ALSA and PulseAudio are all as on a desktop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import pytest_audioeval
from numpy.typing import NDArray

from app.audio.wav import read_wav, write_wav
from app.config.settings import AudioSettings
from app.transports.microphone import (
    AmbiguousDevice,
    DeviceError,
    MicrophoneTransport,
    NoDeviceError,
    describe_devices,
    find_device,
)
from app.transports.microphone.devices import portaudio, rescan
from tests.kit.listening import Ear, word_error_rate
from tests.kit.recording_session import RecordingSession
from tests.kit.virtual_sound import RATE_HZ, Recording, VirtualSound

_PHRASES = Path(pytest_audioeval.__path__[0]) / "samples" / "audio" / "en"
_PITCH_HZ = 1000.0


@pytest.fixture(scope="module")
def sound() -> Iterator[VirtualSound]:
    before = dict(os.environ)
    with VirtualSound() as card:
        os.environ.update(card.variables)
        rescan()
        yield card
        os.environ.clear()
        os.environ.update(before)
    rescan()


@asynccontextmanager
async def talking(
    session: RecordingSession, said: list[str] | None = None, settings: AudioSettings | None = None
) -> AsyncIterator[MicrophoneTransport]:
    transport = MicrophoneTransport(settings or AudioSettings(), say=(said if said is not None else []).append)
    task = asyncio.create_task(transport.run(session))
    try:
        await until(lambda: bool(session.frames) or task.done())
        yield transport
        assert not task.done(), task
    finally:
        await session.close("test over")
        await asyncio.wait_for(task, 3)


@asynccontextmanager
async def recorded(sound: VirtualSound, source: str = "spk.monitor") -> AsyncIterator[Recording]:
    """``sound.recording`` without its waiting on the loop, which must run at its 10 ms."""
    recording = sound.recording(source)
    yielded = await asyncio.to_thread(recording.__enter__)
    try:
        yield yielded
    finally:
        await asyncio.to_thread(recording.__exit__, None, None, None)


async def until(condition: Callable[[], bool], timeout_s: float = 8.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event to set
            await asyncio.sleep(0.02)


def tone(seconds: float, hz: float = _PITCH_HZ, rate_hz: int = RATE_HZ) -> NDArray[np.int16]:
    return (8000 * np.sin(2 * np.pi * hz * np.arange(int(seconds * rate_hz)) / rate_hz)).astype(np.int16)


def pitch_hz(pcm: NDArray[np.int16], rate_hz: int) -> float:
    spectrum = np.abs(np.fft.rfft(pcm * np.hanning(len(pcm))))
    return float(np.argmax(spectrum) * rate_hz / len(pcm))


def loud_part(pcm: NDArray[np.int16], floor: int = 500) -> NDArray[np.int16]:
    loud = np.flatnonzero(np.abs(pcm.astype(np.int32)) > floor)
    return pcm[loud[0] : loud[-1] + 1] if len(loud) else pcm[:0]


def assert_a_second_of_it(played: NDArray[np.int16], rate_hz: int) -> None:
    """A machine that comes late puts silence in; nothing may be left out or be there twice."""
    sounding = np.convolve(np.abs(played.astype(np.int32)) > 500, np.ones(rate_hz // 1000), "same") > 0
    assert np.count_nonzero(sounding) / rate_hz == pytest.approx(1.0, abs=0.06)
    assert len(played) / rate_hz == pytest.approx(1.0, abs=0.25)


def power_db(pcm: NDArray[np.int16]) -> float:
    return float(10 * np.log10(np.mean(pcm.astype(np.float64) ** 2) + 1e-9))


def usual_power_db(pcm: NDArray[np.int16], rate_hz: int) -> float:
    """Of its 50 ms pieces the middle one: a machine that is late once spoils a few of them."""
    piece = rate_hz // 20
    return float(np.median([power_db(part) for part in pcm[: len(pcm) // piece * piece].reshape(-1, piece)]))


def phrase(name: str, rate_hz: int = RATE_HZ) -> NDArray[np.int16]:
    return read_wav(_PHRASES / f"{name}.wav", rate_hz)


def wav(folder: Path, pcm: NDArray[np.int16]) -> Path:
    write_wav(folder / "said.wav", pcm)
    return folder / "said.wav"


async def test_a_tone_from_the_session_reaches_the_speaker_at_its_pitch_and_without_gaps(sound: VirtualSound) -> None:
    session = RecordingSession()
    async with talking(session) as transport:
        await asyncio.sleep(0.3)
        before = transport.stats.underruns
        async with recorded(sound) as recording:
            session.play(tone(1.0))
            await asyncio.sleep(1.4)
        underruns = transport.stats.underruns - before
    played = loud_part(recording.pcm)
    assert pitch_hz(played, RATE_HZ) == pytest.approx(_PITCH_HZ, rel=0.01)
    assert underruns <= 3
    assert_a_second_of_it(played, RATE_HZ)
    # A gap or a repeated block is a jump no sine of this pitch makes.
    assert np.abs(np.diff(played.astype(np.int32))).max() < 2.0 * 8000 * 2 * np.pi * _PITCH_HZ / RATE_HZ


async def test_a_tone_into_the_microphone_arrives_at_its_pitch(sound: VirtualSound, tmp_path: Path) -> None:
    session = RecordingSession()
    # Without the canceller: its noise suppressor takes a steady tone for noise, as it should.
    async with talking(session, settings=AudioSettings(echo_cancellation=False)):
        await asyncio.to_thread(sound.say, wav(tmp_path, tone(1.0)))
        await asyncio.sleep(0.3)
    heard = loud_part(session.heard)
    assert pitch_hz(heard, 16_000) == pytest.approx(_PITCH_HZ, rel=0.01)
    assert_a_second_of_it(heard, 16_000)


async def test_speech_into_the_microphone_is_still_understood(sound: VirtualSound, tmp_path: Path, ear: Ear) -> None:
    session = RecordingSession()
    async with talking(session):
        await asyncio.to_thread(sound.say, wav(tmp_path, phrase("quick_brown_fox")))
        await asyncio.sleep(0.4)
    assert word_error_rate((_PHRASES / "quick_brown_fox.txt").read_text(), ear.hear(session.heard, 16_000)) == 0


async def test_the_assistants_echo_is_suppressed_and_speech_over_it_is_understood(
    sound: VirtualSound, tmp_path: Path, ear: Ear
) -> None:
    voice = phrase("counting")
    voice = np.tile(voice, 1 + int(12 * RATE_HZ / len(voice)))[: 12 * RATE_HZ]
    session = RecordingSession()
    sound.add_echo(latency_ms=60)
    try:
        async with talking(session):
            session.play(voice)
            await asyncio.sleep(4.0)  # the canceller converges
            session.clear()
            async with recorded(sound, "mic") as air:
                await asyncio.sleep(1.5)
            echo_only = session.heard
            session.clear()
            await asyncio.to_thread(sound.say, wav(tmp_path, phrase("quick_brown_fox")))
            await asyncio.sleep(0.4)
            over_it = session.heard
    finally:
        sound.remove_echo()
    echo_db, left_db = usual_power_db(air.pcm, RATE_HZ), usual_power_db(echo_only, 16_000)
    print(f"echo {echo_db:.1f} dB, left of it {left_db:.1f} dB")
    assert power_db(air.pcm) > power_db(np.full(1, 200, np.int16)), "there was no echo to cancel"
    assert echo_db - left_db >= 20
    assert word_error_rate((_PHRASES / "quick_brown_fox.txt").read_text(), ear.hear(over_it, 16_000)) <= 0.25


async def test_a_device_that_disappears_is_replaced_and_the_session_goes_on(sound: VirtualSound) -> None:
    session, said = RecordingSession(), []
    async with talking(session, said) as transport:
        sound.stop()
        await until(lambda: any("was lost" in line for line in said))
        await asyncio.to_thread(sound.start)
        await until(lambda: transport.stats.reopened == 1, 15)
        session.clear()
        async with recorded(sound) as recording:
            session.play(tone(0.6))
            await asyncio.sleep(1.2)
        assert len(session.frames) > 40
    assert pitch_hz(loud_part(recording.pcm), RATE_HZ) == pytest.approx(_PITCH_HZ, rel=0.01)
    assert any("Going on" in line for line in said)


async def test_a_named_device_that_is_missing_gives_way_to_the_default_with_a_word(sound: VirtualSound) -> None:
    session, said = RecordingSession(), []
    async with talking(session, said, AudioSettings(input_device="studio condenser")):
        pass
    assert any("audio.input_device" in line and "studio condenser" in line and "default" in line for line in said)


async def test_ending_a_session_leaves_no_thread_and_no_task(sound: VirtualSound) -> None:
    async with talking(RecordingSession()):
        pass
    await asyncio.sleep(0.1)
    threads, tasks = threading.active_count(), len(asyncio.all_tasks())
    for _ in range(3):
        async with talking(RecordingSession()):
            pass
    await asyncio.sleep(0.1)
    assert (threading.active_count(), len(asyncio.all_tasks())) == (threads, tasks)


async def test_cancelling_while_the_devices_open_leaves_nothing_open(sound: VirtualSound) -> None:
    for delay_s in (0.0, 0.003, 0.006, 0.01, 0.02):
        session = RecordingSession()
        task = asyncio.create_task(MicrophoneTransport(AudioSettings(), say=lambda line: None).run(session))
        await asyncio.sleep(delay_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.2)
        assert "ALSA" not in sound.pactl("list", "clients"), "a stream is still open"


def test_devices_are_found_by_index_and_by_part_of_their_name(sound: VirtualSound) -> None:
    found = find_device("DEFAU", "input")
    assert found.name == "default"
    assert find_device(str(found.index), "output") == found
    assert find_device("", "input").is_default("input")
    assert "default microphone" in describe_devices()
    with pytest.raises(DeviceError, match=r"audio\.output_device.*'loud hailer'.*default"):
        find_device("loud hailer", "output")


def test_what_may_be_several_devices_is_refused_with_their_names(
    sound: VirtualSound, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cards(*names: str) -> None:
        shown = [
            {
                "index": index,
                "name": name,
                "max_input_channels": 1,
                "max_output_channels": 2,
                "default_samplerate": 48e3,
            }
            for index, name in enumerate(names)
        ]
        monkeypatch.setattr(portaudio(), "query_devices", lambda: shown)

    cards("USB headset", "USB camera", "Card")
    with pytest.raises(AmbiguousDevice, match=r"--device: 'usb' may be 0 'USB headset', 1 'USB camera'.*index"):
        find_device("usb", "input", named_by="--device")
    with pytest.raises(DeviceError, match=r"no microphone matches '7'"):
        find_device("7", "input")
    assert find_device("USB c", "input").index == 1
    cards("Headset (USB audio dev", "Headset (USB audio device)")
    assert find_device("headset", "input").index == 0, "one device, shown by two sound systems"


def test_without_any_device_the_message_names_the_ways_on(sound: VirtualSound, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portaudio(), "query_devices", list)
    with pytest.raises(NoDeviceError, match="python -m app talk") as caught:
        find_device("", "input")
    assert "python -m app serve" in str(caught.value)


_PROGRAM = """
import asyncio, sys
from contextlib import asynccontextmanager
from types import SimpleNamespace
from app.cli import microphone
from app.config import Settings
from tests.kit.recording_session import RecordingSession

class Host:
    async def open(self, send, *, transport, options):
        return RecordingSession()

    def options(self, given):
        return given

@asynccontextmanager
async def build(settings, on_report):
    yield SimpleNamespace(host=Host())

sys.modules["app.wiring"] = SimpleNamespace(build=build)
sys.modules["app.cli.first_run"] = SimpleNamespace(fetch_missing=lambda settings: None)
sys.exit(microphone.run(Settings()))
"""


@pytest.mark.parametrize("server_hangs", [False, True], ids=["all well", "sound server hangs"])
def test_ctrl_c_ends_the_program_within_two_seconds(sound: VirtualSound, server_hangs: bool) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], env=sound.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert program.stdout is not None
    try:
        while not program.stdout.readline().startswith("Microphone"):
            assert program.poll() is None
        if server_hangs:
            sound.freeze()
        program.send_signal(signal.SIGINT)
        assert program.wait(timeout=2.2) == 0
        if not server_hangs:
            assert "Goodbye." in program.stdout.read()
    finally:
        sound.thaw()
        program.kill()
        program.wait()


def test_a_sound_server_that_hangs_at_the_start_is_told_and_can_be_left(sound: VirtualSound) -> None:
    told = (
        "from app.transports.microphone import reach_sound_system\n"
        "from app.transports.microphone.devices import DeviceError\n"
        "import sys\n"
        "try: reach_sound_system(0.5)\n"
        "except DeviceError as error: sys.exit(str(error))\n"
    )
    sound.freeze()
    try:
        done = subprocess.run([sys.executable, "-c", told], env=sound.env, capture_output=True, text=True, timeout=20)
        assert done.returncode == 1
        assert "did not answer within 0.5 s" in done.stderr
        program = subprocess.Popen(
            [sys.executable, "-m", "app", "--list-devices"], env=sound.env, stdout=subprocess.DEVNULL
        )
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                program.wait(1.5)
            program.send_signal(signal.SIGINT)
            assert program.wait(2) == 130
        finally:
            program.kill()
            program.wait()
    finally:
        sound.thaw()


def test_without_a_sound_card_the_program_says_so_and_ends_with_status_2(tmp_path: Path) -> None:
    # No sound server; a card in the machine that runs the test cannot be hidden from ALSA, only from the program.
    hide_cards = "import sounddevice; sounddevice.query_devices = list\n" if Path("/dev/snd").exists() else ""
    config = tmp_path / "asound.conf"
    config.write_text("</usr/share/alsa/alsa.conf>\n")
    env = {**os.environ, "ALSA_CONFIG_PATH": str(config), "PULSE_SERVER": f"unix:{tmp_path}/none"}
    command = [sys.executable, "-c", hide_cards + _PROGRAM]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "No microphone found" in done.stderr
    assert "python -m app talk" in done.stderr
