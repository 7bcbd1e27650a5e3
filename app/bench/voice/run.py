"""One run: a fresh server, so many callers in another process, and both watched while they talk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

import app
from app.bench.voice.clients import Job, Outcome
from app.bench.voice.server import ServerProcess, Told, Usage, free_port, machine_cpu_s
from app.bench.voice.speech import Script
from app.errors import StageError

_WATCH_S = 2.0
_LINE_LIMIT = 64 * 2**20
"""Bytes of the result, one line: about 2 KiB a turn."""


@dataclass(frozen=True, slots=True)
class Options:
    """What one run is to be."""

    sessions: int
    turns: int
    seed: int
    port: int
    """0 takes a free one."""
    settings_flags: tuple[str, ...]
    """For the server, as they stand before its command."""
    log: Path
    """Where the server's output goes."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The server while the callers talked."""

    front_end_cores: float
    worker_cores: float
    other_cores: float
    """Taken by processes that are neither the server nor the callers: the figures suffer from it."""
    rss_peak_mb: float
    rss_end_mb: float
    pss_end_mb: float
    loop_lag_p50_ms: float
    """Of the largest delays in windows of 10 s."""
    loop_lag_max_ms: float
    underrun_ms: float
    """For how long replies in mid-speech had no sound ready."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything that one run found."""

    sessions: int
    turns_each: int
    voices: tuple[str, ...]
    outcome: Outcome
    server: Watched


Report = Callable[[str, dict[str, Any]], None]
"""Gets what happens (``starting``, ``connecting``, ``turn``, ``measuring``) and what belongs to it."""


async def measure(options: Options, script: Script, report: Report) -> Measured:
    """Raises ConfigError (the port), StageUnavailable (the server), StageError (the callers). Cancelling ends both."""
    server = ServerProcess(options.settings_flags, free_port(options.port), options.log)
    job = Job(
        server.url,
        options.sessions,
        options.turns,
        options.seed,
        script.questions,
        script.long_questions,
        script.stops,
    )
    report("starting", {})
    try:
        await server.start()
        report("connecting", {"process_id": server.process_id})
        watch = _Watch(server)
        outcome = await _call(job, watch, report)
        return Measured(options.sessions, options.turns, script.voices, outcome, watch.result(outcome.cpu_s))
    finally:
        await asyncio.shield(server.stop())


async def _call(job: Job, watch: _Watch, report: Report) -> Outcome:
    """Run the callers' process; watch the server from their first word to their last."""
    root = str(Path(app.__file__).parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app.bench.voice.clients"),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=_LINE_LIMIT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(msgspec.json.encode(job) + b"\n")
        async for line in process.stdout:
            message = msgspec.json.decode(line)
            match message["type"]:
                case "began":
                    await watch.begin()
                case "turn":
                    report("turn", message)
                case "ended":
                    await watch.end()
                    report("measuring", {})
                case "failed":
                    raise StageError(message["message"])
                case "result":
                    await watch.look_again()
                    return msgspec.convert(message["outcome"], Outcome)
        raise StageError(f"The callers' process ended with code {await process.wait()}; its output is above.")
    finally:
        await watch.stop()
        process.stdin.close()  # which ends it
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


class _Watch:
    """Samples the server from ``begin`` to ``end``."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._usages: list[tuple[float, Usage]] = []
        self._told: list[Told] = []
        self._pss_mb = 0.0
        self._machine_cpu_s: list[float] = []
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        self._machine_cpu_s.append(machine_cpu_s())
        await self._sample()
        self._task = asyncio.create_task(self._watch(), name="watch server")

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_S)
            await self._sample()

    async def _sample(self) -> None:
        self._usages.append((self._loop.time(), await self._server.usage()))
        await self.look_again()

    async def look_again(self) -> None:
        """What the server counts when sessions end is known after ``end``."""
        if (told := await self._server.told()) is not None:
            self._told.append(told)

    async def end(self) -> None:
        await self.stop()
        await self._sample()
        self._machine_cpu_s.append(machine_cpu_s())
        self._pss_mb = await self._server.pss_mb()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def result(self, callers_cpu_s: float) -> Watched:
        (began_s, first), (ended_s, last) = self._usages[0], self._usages[-1]
        wall_s = ended_s - began_s
        usages = [usage for _, usage in self._usages]
        front_end_s, worker_s = last.front_end_cpu_s - first.front_end_cpu_s, last.worker_cpu_s - first.worker_cpu_s
        all_s = self._machine_cpu_s[-1] - self._machine_cpu_s[0]
        lags = sorted(told.loop_lag_ms for told in self._told)
        return Watched(
            front_end_cores=front_end_s / wall_s,
            worker_cores=worker_s / wall_s,
            other_cores=max(0.0, all_s - front_end_s - worker_s - callers_cpu_s) / wall_s,
            rss_peak_mb=max(usage.rss_mb for usage in usages),
            rss_end_mb=last.rss_mb,
            pss_end_mb=self._pss_mb,
            loop_lag_p50_ms=lags[len(lags) // 2] if lags else 0.0,
            loop_lag_max_ms=lags[-1] if lags else 0.0,
            underrun_ms=max((told.underrun_ms for told in self._told), default=0.0),
        )


def flags(pairs: Sequence[tuple[str, str | None]], settings: Sequence[str]) -> tuple[str, ...]:
    """Flags as a command line: ``pairs`` with a value, then each of ``settings`` with --set."""
    given = [part for flag, value in pairs if value is not None for part in (flag, value)]
    return (*given, *(part for setting in settings for part in ("--set", setting)))
