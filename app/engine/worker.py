"""The worker process: ``python -m app.engine.worker --socket PATH --model FOLDER ...``.

It listens on a unix socket, answers while the model is still loading, and lives as long as the
pipe on its standard input stays open: when the process that started it goes away, so does it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psutil

from app.engine.messages import (
    HEADER,
    MAX_FRAME_BYTES,
    Cancel,
    Command,
    Done,
    EndSession,
    Event,
    Failed,
    LoadFailed,
    Loading,
    Message,
    Ping,
    Pong,
    Ready,
    ReplyEvent,
    SamplingSpec,
    Shutdown,
    Submit,
    Truncate,
    decode_commands,
    frame,
)
from app.engine.options import LoadOptions
from app.errors import ModelError
from app.telemetry.log import configure, log_event
from app.telemetry.scheduling import be_nice, step_back

if TYPE_CHECKING:
    from app.engine.engine import Engine

log = logging.getLogger(__name__)

MAX_UNSENT_BYTES = 16 * 1024 * 1024
"""A client that leaves this much unread is dropped, and its replies cancelled."""

_TOKENISING_THREADS = 1
"""Tokenising releases the interpreter lock, but its core is taken from decoding: one at a time."""


_SWITCH_INTERVAL_S = 0.0005
_WARM_UP_WORDS = 300


class Connection:
    """One client. Events gather during a step and leave together after it."""

    def __init__(self, writer: asyncio.StreamWriter, loop: asyncio.AbstractEventLoop) -> None:
        self._writer = writer
        self._loop = loop
        self._lock = threading.Lock()
        self._gathered: list[Event] = []
        self.keys: dict[int, int] = {}
        """Client's request id to the engine's key, while the request is open."""

    def sink(self, event: ReplyEvent) -> None:
        """On the engine's thread."""
        with self._lock:
            self._gathered.append(event)

    def flush_soon(self) -> None:
        """On the engine's thread, after a step."""
        with self._lock:
            if not self._gathered:
                return
            events, self._gathered = self._gathered, []
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to read
            self._loop.call_soon_threadsafe(self.send, events)

    def send(self, events: list[Event]) -> None:
        """On the loop's thread."""
        for event in events:
            if isinstance(event, Done | Failed):
                self.keys.pop(event.id, None)
        if self._writer.is_closing():
            return
        self._writer.write(frame(events))
        if self._writer.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            log_event(log, "llm.client_too_slow", level=logging.WARNING)
            self._writer.transport.abort()


class Worker:
    """Socket on the event loop, model on the engine's thread, tokenising on a thread of its own."""

    def __init__(self, options: LoadOptions, *, max_running: int, max_waiting: int, session_ttl_s: float) -> None:
        self._options = options
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._session_ttl_s = session_ttl_s
        self._connections: set[Connection] = set()
        self._engine: Engine | None = None
        self._state: Event = Loading()
        self._tokenising = ThreadPoolExecutor(_TOKENISING_THREADS, "tokenise", initializer=step_back)
        self._over = asyncio.Event()
        self._process = psutil.Process()

    async def serve(self, socket: Path) -> None:
        """Until told to shut down. The socket's file is removed at the end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._over.set)
        os.umask(0o077)  # only this user may connect
        server = await asyncio.start_unix_server(self._serve_client, str(socket))
        engine_thread = threading.Thread(target=self._load_and_run, args=(loop,), name="engine", daemon=True)
        engine_thread.start()
        threading.Thread(target=self._watch_parent, args=(loop,), name="parent", daemon=True).start()
        await self._over.wait()
        server.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(socket)  # noqa: PTH108 - a local file, gone at once
        self._tokenising.shutdown(wait=False, cancel_futures=True)
        if self._engine is not None:
            self._engine.stop()
            await asyncio.to_thread(engine_thread.join, 1.0)

    def _load_and_run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            engine, ready = self._load()
        except ModelError as error:
            state: Event = LoadFailed(str(error))
            loop.call_soon_threadsafe(self._announce, state)
            return
        except Exception as error:
            log_event(log, "llm.load_failed", level=logging.ERROR, error=error)
            loop.call_soon_threadsafe(self._announce, LoadFailed(f"{self._options.path}: {error!r}"))
            return
        self._engine = engine
        loop.call_soon_threadsafe(self._announce, ready)
        engine.run()

    def _load(self) -> tuple[Engine, Ready]:
        self._options.check()
        # Here and not at the top: the loader imports torch, which takes a second; the socket should answer before.
        from app.engine.blocks import BlockPool
        from app.engine.engine import Engine
        from app.engine.loader import load
        from app.engine.scheduler import Limits

        began = time.monotonic()
        # The engine's thread asks for the interpreter lock hundreds of times in a step; with the usual 5 ms
        # a prompt being tokenised would stretch each of those waits.
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        loaded = load(self._options)
        engine = Engine(
            loaded.backend,
            loaded.prompts,
            BlockPool(loaded.blocks, loaded.block_tokens),
            Limits(loaded.context_tokens, self._max_running),
            eos_ids=loaded.eos_ids,
            max_waiting=self._max_waiting,
            session_ttl_s=self._session_ttl_s,
            tokenising=self._tokenising,
            constrain=loaded.constrain,
            after_step=self._flush,
        )
        loaded_at = time.monotonic()
        warm_up(engine)
        ready = Ready(
            runner=loaded.runner,
            device=loaded.device,
            dtype=loaded.dtype,
            context_tokens=loaded.context_tokens,
            pool_tokens=loaded.blocks * loaded.block_tokens,
            load_s=loaded_at - began,
            warm_up_s=time.monotonic() - loaded_at,
            memory_mb=self._memory_mb(),
            tool_format=loaded.prompts.tool_format,
        )
        return engine, ready

    def _announce(self, state: Event) -> None:
        self._state = state
        for connection in self._connections:
            connection.send([state])

    def _flush(self) -> None:
        for connection in tuple(self._connections):
            connection.flush_soon()

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(writer, asyncio.get_running_loop())
        self._connections.add(connection)
        connection.send([self._state])
        try:
            while not self._over.is_set():
                for command in await read_commands(reader):
                    self._obey(command, connection)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client went away
        except (msgspec.DecodeError, ValueError) as error:
            log_event(log, "llm.bad_frame", level=logging.WARNING, why=str(error))
        finally:
            self._connections.discard(connection)
            if self._engine is not None:
                for key in list(connection.keys.values()):
                    self._engine.cancel(key)
            writer.close()

    def _obey(self, command: Command, connection: Connection) -> None:
        engine = self._engine
        match command:
            case Ping(id):
                figures = engine.figures(self._memory_mb()) if engine is not None else None
                connection.send([Pong(id, figures)])
            case Shutdown():
                self._over.set()
            case _ if engine is None:
                log_event(log, "llm.too_early", level=logging.WARNING)
            case Submit():
                connection.keys[command.id] = engine.submit(command, connection.sink)
            case Cancel(id):
                key = connection.keys.get(id)
                if key is not None:
                    engine.cancel(key)
            case EndSession():
                engine.end_session(command.session, command.salt)
            case Truncate():
                engine.truncate(command.session, command.heard_tokens, command.salt)

    def _memory_mb(self) -> float:
        return float(self._process.memory_info().rss) / (1024 * 1024)

    def _watch_parent(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(OSError, ValueError):
            while os.read(sys.stdin.fileno(), 4096):
                pass
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._over.set)
        # A step that hangs in native code must not keep the process alive.
        time.sleep(3.0)
        os._exit(0)


def warm_up(engine: Engine) -> None:
    """A short reply with nobody listening: first calls build kernels, touch memory, and tell how long steps take."""
    words = min(_WARM_UP_WORDS, engine.scheduler.limits.context_tokens // 8)
    warm = Submit(0, (Message("user", "hello " * words),), SamplingSpec(max_tokens=4, ignore_eos=True))
    engine.submit(warm, lambda event: None)
    deadline = time.monotonic() + 60.0
    while engine.figures().finished + engine.figures().failed == 0 and time.monotonic() < deadline:
        if not engine.step():
            time.sleep(0.001)  # being tokenised
    engine.sessions.forget_everything()
    engine.scheduler.pool.drop_cached()


async def read_commands(reader: asyncio.StreamReader) -> list[Command]:
    (length,) = HEADER.unpack(await reader.readexactly(HEADER.size))
    if length > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {length} bytes is longer than the limit of {MAX_FRAME_BYTES}")
    return decode_commands(await reader.readexactly(length))


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="app.engine.worker", description="Parley's language model worker")
    parser.add_argument("--socket", type=Path, required=True, help="unix socket to listen on")
    parser.add_argument("--model", type=Path, required=True, help="model folder")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quantization", default="bf16", choices=("none", "bf16", "int8"))
    parser.add_argument("--runner", default="auto", choices=("auto", "native", "lean", "packed", "single"))
    parser.add_argument("--kv-cache-mb", type=int, default=256)
    parser.add_argument("--context-tokens", type=int, default=4096)
    parser.add_argument("--max-running", type=int, default=64)
    parser.add_argument("--max-waiting", type=int, default=256)
    parser.add_argument("--session-ttl-s", type=float, default=600.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--nice", type=int, default=0, help="how far to step back for other processes, 0 to 19")
    parser.add_argument("--log-level", default="info")
    return parser.parse_args(arguments)


def main(exit_process: Callable[[int], None] = os._exit) -> None:
    arguments = parse()
    configure(arguments.log_level)
    be_nice(arguments.nice)
    options = LoadOptions(
        arguments.model,
        device=arguments.device,
        quantization=arguments.quantization,
        runner=arguments.runner,
        threads=arguments.threads,
        kv_cache_mb=arguments.kv_cache_mb,
        context_tokens=arguments.context_tokens,
    )
    worker = Worker(
        options,
        max_running=arguments.max_running,
        max_waiting=arguments.max_waiting,
        session_ttl_s=arguments.session_ttl_s,
    )
    asyncio.run(worker.serve(arguments.socket))
    # Without waiting for a thread that may hang in native code.
    exit_process(0)


if __name__ == "__main__":
    main()
