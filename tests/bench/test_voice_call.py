"""The caller on real WebRTC, over scripted sessions; and, slowly, everything on the real models."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from app.bench.voice import speech
from app.bench.voice.call import CallFailed, VoiceCall
from app.bench.voice.listening import Heard, onset
from app.bench.voice.packets import room, spoken
from app.bench.voice.server import ServerProcess, free_port
from app.cli.main import main
from app.errors import ConfigError, StageUnavailable
from tests.kit.browser import loopback_media
from tests.kit.page_server import page_server
from tests.kit.scripted_session import ScriptedHost

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.flaky(reruns=2, reruns_delay=1)  # against the clock, which a busy machine is late for


@pytest.fixture
def loopback() -> Iterator[None]:
    with loopback_media():
        yield


async def test_what_a_caller_says_arrives_and_what_it_hears_is_measured(loopback: None) -> None:
    tone = (9000 * np.sin(np.arange(24_000) * 0.06)).astype(np.int16)
    async with page_server(ScriptedHost()) as server, VoiceCall(server.url, room()) as call:
        session = await server.session()
        await asyncio.sleep(0.3)
        assert 0 < session.loudest < 300, "a quiet room"
        said = await call.microphone.say(spoken(tone))
        assert said.last_s - said.first_s > 0.4
        asked_s = asyncio.get_running_loop().time()
        session.play_tone(seconds=0.5)
        session.reply_over("r", "heard")
        await asyncio.sleep(1.0)
        assert session.loudest > 5000
        assert call.state == "listening"
        assert call.reply_over_s > asked_s
        began_s = onset(Heard.of(call.heard), asked_s, asked_s + 5.0)
        assert began_s is not None
        assert onset(Heard.of(call.heard), 0.0, asked_s) is None
        await session.close("over")
        await asyncio.sleep(0.2)
        assert "over" in call.ended


async def test_a_server_that_refuses_is_quoted(loopback: None) -> None:
    async with page_server(ScriptedHost(limit=0)) as server:
        with pytest.raises(CallFailed, match="All 0 sessions are in use"):
            async with VoiceCall(server.url, room()):
                pass


def test_a_port_that_is_taken_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match="--port"):
            free_port(taken.getsockname()[1])


async def test_a_server_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    server = ServerProcess(("--set", "llm.nonsense=1"), free_port(0), tmp_path / "log")
    with pytest.raises(StageUnavailable, match=r"llm\.nonsense"):
        await server.start()
    await server.stop()


def test_a_missing_model_is_told_before_anything_is_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "voice", "--set", f"runtime.model_store={tmp_path}"]) == 2
    assert "models pull" in capsys.readouterr().err


def test_clips_are_made_once(store: Path) -> None:
    script = speech.prepare(store)
    assert len(script.questions) == 12
    assert all(Path(clip.path).stat().st_size > 20_000 for clip in (*script.questions, *script.long_questions))
    assert speech.prepare(store, pytest.fail) == script


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_real_run_of_one_session_answers_its_turns(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "voice.json"
    assert main(["--config", str(ROOT / "config.toml"), "bench", "voice", "--turns", "1", "--out", str(out)]) == 0
    (run,) = json.loads(out.read_text())
    figures, server = run["figures"], run["server"]
    assert figures["answered"] == figures["turns"] == 1
    assert figures["word_error_rate"] < 0.3
    assert 0 < figures["voice_to_voice_ms"]["p50"] < 15_000
    assert "asr" in figures["waterfall_ms"]
    assert server["rss_peak_mb"] > 200
    assert server["worker_cores"] > 0
    assert not run["run"]["lost_calls"]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_an_interrupt_leaves_no_process_behind(store: Path, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    command = [sys.executable, "-m", "app", "bench", "voice", "--log", str(log)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 150
        while not (log.exists() and "session_opened" in log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.2)
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) >= 3, "the server, its worker and the callers"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 128 + signal.SIGINT
        assert psutil.wait_procs(family, 5)[1] == []
    finally:
        process.kill()
