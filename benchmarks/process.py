"""A contender's process group: started, waited for, put to sleep while others are measured, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

_GRACE_S = 10.0


class StartFailed(Exception):
    """The message says where its output lies."""


class Group:
    """A process and all that it starts. Its output goes to ``log``."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], log: Path, *, speaks: bool = False) -> None:
        """``speaks``: its standard input and output are pipes of ours."""
        self._command = list(command)
        self._env = {**os.environ, **env}
        self._log = log
        self._speaks = speaks
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        pipe = asyncio.subprocess.PIPE
        with self._log.open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self._command,
                env=self._env,
                stdin=pipe if self._speaks else asyncio.subprocess.DEVNULL,
                stdout=pipe if self._speaks else log,
                stderr=log,
                start_new_session=True,
                limit=64 * 1024 * 1024,
            )

    async def listening(self, port: int, path: str, timeout_s: float) -> None:
        """Until the server answers ``path`` with status 200. Raises StartFailed."""
        try:
            async with asyncio.timeout(timeout_s):
                while not await _answers(port, path):
                    self._check_alive()
                    await asyncio.sleep(0.25)
        except TimeoutError:
            raise StartFailed(f"not ready after {timeout_s:.0f} s; its output is in {self._log}") from None

    async def ask(self, line: str) -> str:
        """Write a line, read a line. Raises StartFailed if the process has ended."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        return await self.heard()

    async def heard(self, timeout_s: float = 900.0) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(timeout_s):
                line = await self.process.stdout.readline()
        except TimeoutError:
            raise StartFailed(f"no answer in {timeout_s:.0f} s; its output is in {self._log}") from None
        if not line:
            raise StartFailed(f"it ended; its output is in {self._log}")
        return line.decode()

    def sleep(self) -> None:
        """Stop it in its tracks: an engine that polls while it is idle takes nothing from the one being measured."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._signal(signal.SIGCONT)

    def forget_peak(self) -> None:
        """Let the peak of its memory start anew (Linux; elsewhere the peak is that of its whole life)."""
        for process in self._members():
            with contextlib.suppress(OSError):
                Path(f"/proc/{process.pid}/clear_refs").write_text("5")

    def peak_mb(self) -> float:
        """Resident memory of all its processes at their highest, MiB; pages that they share count for each."""
        return sum(_peak_kib(process) for process in self._members()) / 1024

    async def stop(self) -> None:
        if self.process is None:
            return
        members = self._members()
        self.wake()
        if self.process.returncode is None:
            if self.process.stdin is not None:
                self.process.stdin.close()
            self._signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    await self.process.wait()
        for process in members:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        await self.process.wait()

    def _check_alive(self) -> None:
        if self.process is None or self.process.returncode is not None:
            code = self.process.returncode if self.process else None
            raise StartFailed(f"ended with status {code}; its output is in {self._log}")

    def _members(self) -> list[psutil.Process]:
        if self.process is None:
            return []
        try:
            parent = psutil.Process(self.process.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _signal(self, number: int) -> None:
        # Not killpg: workers may have sessions of their own.
        for process in self._members():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)


def end_on_sigterm() -> None:
    """Let a SIGTERM unwind this program, so that what it started ends with it."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _peak_kib(process: psutil.Process) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    with contextlib.suppress(psutil.NoSuchProcess):
        return int(process.memory_info().rss) // 1024
    return 0


async def _answers(port: int, path: str) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        return b" 200" in await reader.readline()
    except OSError:
        return False
    finally:
        writer.close()
