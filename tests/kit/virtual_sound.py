"""A sound card made of PulseAudio null sinks: a virtual microphone, a virtual speaker, and air between them.

The server is private to the test: its own runtime folder and socket, no autospawn, no user
configuration. PortAudio reaches it through ALSA's pulse plug-in (package libasound2-plugins), whose
devices are called ``pulse`` and ``default``.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

RATE_HZ = 48_000

_ALSA_CONFIG = """\
</usr/share/alsa/alsa.conf>
pcm.!default { type pulse hint { show on description "Virtual sound card" } }
ctl.!default { type pulse }
"""


class VirtualSound:
    """One private sound server. Use as a context manager; ``env`` makes child processes use it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="parley-sound-"))
        socket = self._folder / "socket"
        alsa = self._folder / "asound.conf"
        alsa.write_text(_ALSA_CONFIG)
        self.variables: Mapping[str, str] = {
            "PULSE_SERVER": f"unix:{socket}",
            "PULSE_RUNTIME_PATH": str(self._folder),
            "PULSE_STATE_PATH": str(self._folder),
            "PULSE_COOKIE": str(self._folder / "cookie"),
            "XDG_RUNTIME_DIR": str(self._folder),
            "ALSA_CONFIG_PATH": str(alsa),
        }
        self._socket = socket
        self._server: subprocess.Popen[bytes] | None = None
        self._helpers: list[subprocess.Popen[bytes]] = []
        self._players: list[subprocess.Popen[bytes]] = []
        self._echo: str | None = None
        # A test that is run a second time makes pytest forget to end what its module's fixtures began.
        atexit.register(self.close)
        self.start()

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, **self.variables}

    def __enter__(self) -> VirtualSound:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Bring the server up with its microphone and speaker (again, after ``stop``)."""
        with suppress(FileNotFoundError):
            self._socket.unlink()
        speaker = f"module-null-sink sink_name=spk rate={RATE_HZ} channels=1"
        throat = f"module-null-sink sink_name=micin rate={RATE_HZ} channels=1"
        self._server = subprocess.Popen(
            [
                "pulseaudio", "-n", "--daemonize=no", "--use-pid-file=no", "--exit-idle-time=-1",
                "--disallow-exit", "--log-target=stderr", "--log-level=error",
                f"--load=module-native-protocol-unix socket={self._socket} auth-anonymous=1",
                f"--load={speaker}", f"--load={throat}",
                "--load=module-remap-source source_name=mic master=micin.monitor",
            ],
            env=self.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 10.0
        while True:
            try:
                self.pactl("set-default-sink", "spk")
                self.pactl("set-default-source", "mic")
                break
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline or self._server.poll() is not None:
                    raise
                time.sleep(0.05)
        self._keep_awake()

    def _keep_awake(self) -> None:
        # A null sink that nobody listens to ticks every 2 s, and keeps that tick for up to 2 s after someone
        # asked for less. A listener from the start makes it tick at 10 ms, as real hardware does.
        listeners = [
            subprocess.Popen(
                ["parec", "-d", source, f"--rate={RATE_HZ}", "--channels=1", "--format=s16le", "--latency-msec=10"],
                env=self.env,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            for source in ("spk.monitor", "mic")
        ]
        for listener in listeners:
            assert listener.stdout is not None
            listener.stdout.read(1)
            with Path(os.devnull).open("wb") as nothing:
                self._helpers += [listener, subprocess.Popen(["cat"], stdin=listener.stdout, stdout=nothing)]
            listener.stdout.close()

    def stop(self) -> None:
        """Take the whole sound card away, as pulling its plug does."""
        for helper in self._helpers:
            helper.kill()
            helper.wait()
        self._helpers.clear()
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None
            self._echo = None

    def freeze(self) -> None:
        """Let the server hang: it answers nothing until ``thaw``."""
        if self._server is not None:
            self._server.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGCONT)

    def close(self) -> None:
        atexit.unregister(self.close)
        for player in self._players:
            if player.poll() is None:
                player.kill()
            player.wait()
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def pactl(self, *arguments: str) -> str:
        done = subprocess.run(["pactl", *arguments], env=self.env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def say(self, wav: Path, *, wait: bool = True) -> subprocess.Popen[bytes]:
        """Play a WAV into the virtual microphone."""
        player = subprocess.Popen(["paplay", "--device=micin", str(wav)], env=self.env)
        self._players.append(player)
        if wait:
            player.wait()
        return player

    def add_echo(self, *, latency_ms: int = 60, volume_percent: int = 70) -> None:
        """Let the speaker be heard by the microphone, as in a room without headphones.

        PulseAudio's volume is cubic: 70 % is -9 dB, 50 % is -18 dB.
        """
        self._echo = self.pactl("load-module", "module-loopback", "source=spk.monitor", "sink=micin",
                                f"latency_msec={latency_ms}", "adjust_time=0")  # fmt: skip
        inputs = self.pactl("list", "short", "sink-inputs").splitlines()
        loopback = next(line.split()[0] for line in inputs if "module-loopback" in line)
        self.pactl("set-sink-input-volume", loopback, f"{volume_percent}%")

    def remove_echo(self) -> None:
        if self._echo is not None:
            self.pactl("unload-module", self._echo)
            self._echo = None

    @contextmanager
    def recording(self, source: str = "spk.monitor") -> Iterator[Recording]:
        """Record what the speaker plays (or ``mic``: what the microphone hears) while the block runs."""
        with tempfile.TemporaryFile() as sink:
            recorder = subprocess.Popen(
                ["parec", "-d", source, f"--rate={RATE_HZ}", "--channels=1", "--format=s16le", "--latency-msec=20"],
                env=self.env,
                stdout=sink,
            )
            recording = Recording()
            try:
                time.sleep(0.15)
                yield recording
            finally:
                time.sleep(0.15)
                recorder.terminate()
                recorder.wait()
                sink.seek(0)
                data = sink.read()
                recording.pcm = np.frombuffer(data[: len(data) // 2 * 2], np.int16)


class Recording:
    """48 kHz mono int16; filled when the recording ends."""

    pcm: NDArray[np.int16] = np.zeros(0, np.int16)
