"""One run of the worker process: starting it, its socket, its heartbeat, its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

import app
from app.engine.messages import (
    HEADER,
    MAX_FRAME_BYTES,
    Command,
    Delta,
    Done,
    Event,
    Failed,
    Figures,
    LoadFailed,
    Ping,
    Pong,
    Ready,
    ReplyEvent,
    Shutdown,
    decode_events,
    frame,
)
from app.errors import ModelError, StageTimeout, StageUnavailable

_CONNECT_S = 30.0
_POLL_S = 0.02
_BEAT_S = 1.0
_GRACE_S = 2.0
"""How long a worker may take to end by itself before it is killed."""
_STOP_S = 1.0
"""The same when it is told to. A busy machine may not let it come to its end, and nothing is lost with it."""


class WorkerProcess:
    """Not used again once it has ended: a restart makes a new one."""

    def __init__(
        self,
        take: Callable[[ReplyEvent], None],
        *,
        hang_s: float,
        on_figures: Callable[[Figures], None] = lambda figures: None,
    ) -> None:
        """``take`` gets every event of a reply, ``on_figures`` what the worker counts, about once a second.

        A step that takes longer than ``hang_s`` counts as hung.
        """
        self._take = take
        self._on_figures = on_figures
        self._hang_s = hang_s
        self._folder = Path(tempfile.mkdtemp(prefix="parley-llm-"))
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._pongs: dict[int, asyncio.Future[Figures | None]] = {}
        self._next_ping = 0

    @property
    def process_id(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Ready:
        """Returns once the model is warm. Raises ModelError, or EOFError or OSError if the process ends before."""
        socket = self._folder / "worker.sock"
        root = str(Path(app.__file__).parent.parent)
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "app.engine.worker",
            "--socket",
            str(socket),
            *arguments,
            env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(paths)},
            # Never written to: the worker ends when the other end of this pipe closes.
            stdin=asyncio.subprocess.PIPE,
            # A Ctrl-C at the terminal is for the front end, which then ends the worker in order.
            start_new_session=True,
        )
        await self._connect(socket)
        while True:
            for event in await self._read():
                if isinstance(event, Ready):
                    return event
                if isinstance(event, LoadFailed):
                    raise ModelError(event.message)

    async def wait(self) -> str:
        """Hands on events until the worker ends or hangs; returns why."""
        reading = asyncio.create_task(self._read_on(), name="llm-reader")
        beating = asyncio.create_task(self._beat(), name="llm-heartbeat")
        try:
            await asyncio.wait((reading, beating), return_when=asyncio.FIRST_COMPLETED)
            return beating.result() if beating.done() else reading.result()
        finally:
            reading.cancel()
            beating.cancel()
            await asyncio.gather(reading, beating, return_exceptions=True)

    def send(self, command: Command) -> None:
        """Commands to a worker that is gone are dropped: its replies have failed already."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(frame([command]))

    async def figures(self, timeout_s: float) -> Figures:
        self._next_ping += 1
        number = self._next_ping
        answer: asyncio.Future[Figures | None] = asyncio.get_running_loop().create_future()
        self._pongs[number] = answer
        try:
            self.send(Ping(number))
            async with asyncio.timeout(timeout_s):
                found = await answer
        except TimeoutError:
            raise StageTimeout(f"the language model worker did not answer within {timeout_s:.1f} s") from None
        finally:
            del self._pongs[number]
        if found is None:
            raise StageUnavailable("the language model worker is still loading")
        return found

    async def stop(self) -> None:
        """Ends the process, gently and then not, and leaves nothing behind; also when cancelled meanwhile."""
        process = self._process
        try:
            if process is not None and process.returncode is None:
                self.send(Shutdown())
                if process.stdin is not None:
                    process.stdin.close()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_STOP_S if self._writer is not None else 0.0):
                        await process.wait()
        finally:
            if process is not None and process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
            if self._writer is not None:
                self._writer.close()
            for answer in self._pongs.values():
                if not answer.done():
                    answer.set_exception(StageUnavailable("the language model worker has gone down"))
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _connect(self, socket: Path) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _CONNECT_S
        while self._writer is None:
            if self._process.returncode is not None:
                raise EOFError(f"the worker ended with code {self._process.returncode} before it listened")
            try:
                self._reader, self._writer = await asyncio.open_unix_connection(str(socket))
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > deadline:
                    raise EOFError(f"the worker did not listen within {_CONNECT_S:.0f} s") from None
                await asyncio.sleep(_POLL_S)

    async def _read(self) -> list[Event]:
        assert self._reader is not None
        (length,) = HEADER.unpack(await self._reader.readexactly(HEADER.size))
        if length > MAX_FRAME_BYTES:
            raise EOFError("the worker sent a frame without bounds")
        body = await self._reader.readexactly(length)
        try:
            return decode_events(body)
        except msgspec.DecodeError as error:
            raise EOFError(f"the worker sent a frame that cannot be read: {error}") from error

    async def _read_on(self) -> str:
        assert self._process is not None
        try:
            while True:
                for event in await self._read():
                    if isinstance(event, Delta | Done | Failed):
                        self._take(event)
                    elif isinstance(event, Pong):
                        if event.figures is not None:
                            self._on_figures(event.figures)
                        answer = self._pongs.get(event.id)
                        if answer is not None and not answer.done():
                            answer.set_result(event.figures)
        except (EOFError, ConnectionError):
            pass
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await self._process.wait()
        return f"exit code {self._process.returncode}"

    async def _beat(self) -> str:
        """Returns when the worker hangs: it does not answer, or one of its steps does not end."""
        while True:
            await asyncio.sleep(_BEAT_S)
            try:
                figures = await self.figures(self._hang_s)
            except StageTimeout:
                return f"no answer for {self._hang_s:.0f} s"
            if figures.step_age_s > self._hang_s:
                return f"a step did not end within {self._hang_s:.0f} s"
