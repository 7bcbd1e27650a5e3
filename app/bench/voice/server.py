"""The server under measurement, in a process of its own: started, watched and ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

import app
from app.errors import ConfigError, StageUnavailable

HOST = "127.0.0.1"
_READY_S = 180.0
_POLL_S = 0.25
_GRACE_S = 10.0
_MIB = 2**20
_LAST_LINES = 12
"""Of the server's output, shown when it does not start."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the server's processes have taken so far."""

    front_end_cpu_s: float
    worker_cpu_s: float
    """Of the process with the language model, and any other that the front end has started."""
    rss_mb: float
    """Resident memory of all, MiB; pages that they share count for each."""


@dataclass(frozen=True, slots=True)
class Told:
    """What /metrics says."""

    loop_lag_ms: float
    """Largest delay of the event loop in the last 10 s."""
    underrun_ms: float
    """For how long replies in mid-speech had no sound ready, in sessions that are over."""


def free_port(wanted: int) -> int:
    """``wanted``, or one that is free for 0. Raises ConfigError if it is taken."""
    with socket.socket() as probe:
        try:
            probe.bind((HOST, wanted))
        except OSError as error:
            raise ConfigError(f"Port {wanted} cannot be used ({error}); choose another with --port, or 0.") from None
        return int(probe.getsockname()[1])


class ServerProcess:
    """``python -m app serve`` and the processes it starts."""

    def __init__(self, arguments: Sequence[str], port: int, log: Path) -> None:
        """``arguments`` are the settings' flags, as they stand before the command; its output goes to ``log``."""
        self._arguments = arguments
        self._port = port
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._http = httpx.AsyncClient(base_url=self.url, timeout=5.0, trust_env=False)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}/"

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Return once every stage is ready. Raises StageUnavailable with what the server said."""
        root = str(Path(app.__file__).parent.parent)
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "app", *self._arguments),
                *("serve", "--host", HOST, "--port", str(self._port)),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us, who end it in order
            )
        try:
            async with asyncio.timeout(_READY_S):
                while not await self._is_ready():  # noqa: ASYNC110 - another process
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise StageUnavailable(f"The server was not ready after {_READY_S:.0f} s.{self._last_words()}") from None

    async def _is_ready(self) -> bool:
        assert self._process is not None
        if self._process.returncode is not None:
            raise StageUnavailable(f"The server ended with code {self._process.returncode}.{self._last_words()}")
        with contextlib.suppress(httpx.HTTPError):
            return (await self._http.get("readyz")).status_code == 200
        return False

    def _last_words(self) -> str:
        lines = self._log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:]
        return " It said:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""

    async def usage(self) -> Usage:
        """Raises StageUnavailable if the server has ended."""
        return await asyncio.to_thread(self._usage)

    def _usage(self) -> Usage:
        front_end, *others = self._processes()
        cpu_s = rss_mb = 0.0
        for process in others:
            with contextlib.suppress(psutil.NoSuchProcess):
                cpu_s += _cpu_s(process)
                rss_mb += process.memory_info().rss / _MIB
        try:
            return Usage(_cpu_s(front_end), cpu_s, rss_mb + front_end.memory_info().rss / _MIB)
        except psutil.NoSuchProcess:
            raise self._ended() from None

    async def pss_mb(self) -> float:
        """As ``Usage.rss_mb``, but shared pages are divided among those who share them, where the system tells that.

        Counting them stops whatever allocates memory in the meantime: not to be asked while anybody talks.
        """
        return await asyncio.to_thread(self._pss_mb)

    def _pss_mb(self) -> float:
        found = 0.0
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                memory = process.memory_full_info()
                found += getattr(memory, "pss", memory.rss) / _MIB
        return found

    def _processes(self) -> list[psutil.Process]:
        """The front end first."""
        try:
            front_end = psutil.Process(self.process_id)
            return [front_end, *front_end.children(recursive=True)]
        except psutil.NoSuchProcess:
            raise self._ended() from None

    def _ended(self) -> StageUnavailable:
        return StageUnavailable(f"The server has ended.{self._last_words()}")

    async def told(self) -> Told | None:
        """The server's own metrics; None if it does not answer in time."""
        try:
            text = (await self._http.get("metrics")).text
        except httpx.HTTPError:
            return None
        values = {
            sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples
        }
        seconds = (values.get(name, 0.0) for name in ("parley_event_loop_lag_seconds", "parley_underrun_seconds_total"))
        return Told(*(1000 * value for value in seconds))

    async def stop(self) -> None:
        """End it and all it has started, in order first and then not. Idempotent."""
        await self._http.aclose()
        process, self._process = self._process, None
        if process is None:
            return
        members: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            members = psutil.Process(process.pid).children(recursive=True)
        try:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_GRACE_S):
                        await process.wait()
        finally:
            for member in members:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def machine_cpu_s() -> float:
    """What all processes have taken so far, on all cores."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))
