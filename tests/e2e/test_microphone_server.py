"""``python -m app --server``: every way to talk, on a virtual sound card, with a real server that loaded the models."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from app.audio.frames import INPUT_FRAME, OUTPUT_RATE_HZ, Pcm
from app.audio.resample import resample
from app.audio.wav import write_wav
from app.client import RemoteSession, parse_address
from tests.kit.listening import Ear, plain
from tests.kit.speech import say
from tests.kit.terminal import Terminal
from tests.kit.virtual_sound import VirtualSound

pytestmark = pytest.mark.slow

_QUESTION = "What is the capital of France?"
_TOKEN = "a token of the test"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Its address with the token."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "PARLEY_SERVER__TOKEN": _TOKEN}
    command = [sys.executable, "-m", "app", "serve", "--port", str(port)]
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 100
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2)
                break
            except OSError:
                assert process.poll() is None, "the server ended"
                assert time.monotonic() < deadline
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/#token={_TOKEN.replace(' ', '%20')}"
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="module")
def sound() -> Iterator[VirtualSound]:
    with VirtualSound() as card:
        yield card


def wav(folder: Path, *parts: Pcm) -> Path:
    path = folder / "said.wav"
    write_wav(path, resample(np.concatenate(parts), 16_000, OUTPUT_RATE_HZ), OUTPUT_RATE_HZ)
    return path


def app(*flags: str) -> list[str]:
    return [sys.executable, "-m", "app", *flags]


def test_what_is_typed_is_answered_aloud_and_shown(server: str, sound: VirtualSound, ear: Ear) -> None:
    with sound.recording() as recording:
        done = subprocess.run(
            app("--server", server, "--text"),
            env=sound.env,
            input=f"{_QUESTION}\n",
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert f"You:    {_QUESTION}" in lines
    (answer,) = [line.removeprefix("Parley:") for line in lines if line.startswith("Parley:")]
    assert "Paris" in answer
    assert "paris" in plain(ear.hear(recording.pcm, OUTPUT_RATE_HZ))
    assert _TOKEN not in done.stdout + done.stderr


def test_without_any_sound_device_typed_text_is_answered_on_the_screen(server: str, tmp_path: Path) -> None:
    config = tmp_path / "asound.conf"
    config.write_text("</usr/share/alsa/alsa.conf>\n")
    env = {**os.environ, "ALSA_CONFIG_PATH": str(config), "PULSE_SERVER": f"unix:{tmp_path}/none"}
    done = subprocess.run(
        app("--server", server, "--text"), env=env, input=f"{_QUESTION}\n", capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "shown only" in done.stderr
    assert all(line.startswith(("You: ", "Parley: ")) for line in done.stdout.splitlines()), done.stdout
    assert "Parley: " in done.stdout


def test_in_the_picture_what_is_typed_is_seen_corrected_and_sent(server: str, tmp_path: Path) -> None:
    config = tmp_path / "asound.conf"
    config.write_text("</usr/share/alsa/alsa.conf>\n")
    env = {**os.environ, "ALSA_CONFIG_PATH": str(config), "PULSE_SERVER": f"unix:{tmp_path}/none"}
    with Terminal(app("--server", server, "--text"), env) as terminal:
        terminal.wait_for("Enter sends", 20)
        terminal.type("你好")
        terminal.wait_for(lambda text: "> 你" in text, 5)
        terminal.type("\x15" + _QUESTION + "q\x7f\r")
        terminal.wait_for(lambda text: f"You {_QUESTION}" in text and "Parley" in text, 30)
        terminal.process.terminate()
        assert terminal.wait(4) == 0
        assert terminal.attributes() == terminal.at_start


def test_push_to_talk_hears_only_while_it_is_open_and_leaves_the_terminal_as_it_was(
    server: str, sound: VirtualSound, tmp_path: Path
) -> None:
    with Terminal(app("--server", server, "--push-to-talk"), sound.env) as terminal:
        terminal.wait_for("Space or Enter opens the microphone", 20)
        terminal.wait_for("echo is cancelled", 10)
        sound.say(wav(tmp_path, say("Please talk about elephants.")))
        terminal.type(" ")
        terminal.wait_for("SPEAK NOW", 5)
        sound.say(wav(tmp_path, say(_QUESTION)))
        terminal.type("\r")
        text = terminal.wait_for(lambda text: "answered after" in text and "ms" in text.split("answered after")[1], 30)
        assert plain(_QUESTION) in plain(text)
        assert "elephant" not in text
        terminal.resize(40, 10)
        terminal.wait_for(lambda text: "answered after" in text and len(terminal.rows) == 10, 5)
        terminal.type("\x1b")
        terminal.wait_for("listening", 10)
        terminal.type("q")
        assert terminal.wait(4) == 0
        assert terminal.attributes() == terminal.at_start
        assert terminal.raw.rstrip().endswith(b"Goodbye.")
        assert b"\x1b[?1049l" in terminal.raw, "the shell's own screen did not come back"


def test_a_terminal_that_tells_when_keys_are_let_go_is_held_and_not_toggled(server: str, sound: VirtualSound) -> None:
    with Terminal(app("--server", server, "--push-to-talk"), sound.env) as terminal:
        terminal.wait_for("Space or Enter opens", 20)
        terminal.type("\x1b[?0u\x1b[?62;c")
        terminal.wait_for("Hold space to speak", 5)
        assert b"\x1b[>11u" in terminal.raw
        terminal.type("\x1b[99;5u")  # its Ctrl-C, which is no signal any more
        assert terminal.wait(4) == 0
        assert b"\x1b[<u" in terminal.raw, "the shell would get sequences for keys"


def test_only_what_follows_the_wake_word_is_heard_and_silence_lets_it_sleep_again(
    server: str, sound: VirtualSound, tmp_path: Path
) -> None:
    flags = ("--server", server, "--wake-word", "hey jarvis", "--set", "audio.wake_silence_s=2.5")
    with Terminal(app(*flags), sound.env) as terminal:
        terminal.wait_for('Say "hey jarvis"', 20)
        terminal.wait_for("echo is cancelled", 10)
        pause = np.zeros(6400, np.int16)
        sound.say(wav(tmp_path, say("Please talk about elephants."), pause, say("Hey Jarvis."), pause, say(_QUESTION)))
        text = terminal.wait_for("Parley", 30)
        assert "elephant" not in text
        assert "France" in text
        terminal.wait_for("asleep", 40)
        terminal.process.terminate()
        assert terminal.wait(4) == 0
        assert terminal.attributes() == terminal.at_start


async def test_a_connection_that_breaks_in_mid_reply_is_taken_up_and_the_reply_goes_on(server: str) -> None:
    address = parse_address(server)
    told: list[dict] = []
    session = await RemoteSession.open(address, told.append)
    clock = asyncio.create_task(_carry(session))
    try:
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Count to twenty."}]}
        session.receive({"type": "conversation.item.create", "item": item})
        session.receive({"type": "response.create"})
        await _until(lambda: any(event["type"] == "parley.heard" for event in told))
        assert session._socket is not None
        session._socket.transport.abort()
        await _until(lambda: session.reconnects == 1)
        await _until(lambda: any(event["type"] == "response.done" for event in told))
    finally:
        clock.cancel()
        await session.close("over")
    created = [event["session"] for event in told if event["type"] == "session.created"]
    assert [session["resumed"] for session in created] == [False, True]
    assert created[0]["id"] == created[1]["id"]
    (done,) = [event for event in told if event["type"] == "response.done"]
    assert done["response"]["status"] == "completed"


def test_a_wrong_token_and_a_model_of_ones_own_are_refused_in_words(server: str) -> None:
    url = server.partition("#")[0]
    for flags, word in ((("--token", "guess"), "token"), (("--llm", "x"), "llm.model")):
        done = subprocess.run(
            app("--server", url, "--text", *flags), input="", capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 2
        assert word in done.stderr
        assert "Traceback" not in done.stderr


async def _carry(session: RemoteSession) -> None:
    while True:
        session.push_audio(np.zeros(INPUT_FRAME, np.int16))
        session.pull_audio(960)
        await asyncio.sleep(0.02)


async def _until(condition: object, timeout_s: float = 30.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # type: ignore[operator]  # noqa: ASYNC110
            await asyncio.sleep(0.02)
