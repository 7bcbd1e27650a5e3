"""The OpenAI-compatible API for tests: over a scripted model in this process, or the real one in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from openai import AsyncOpenAI

from app.config.settings import Settings
from app.llm import Finished, GenerateRequest, LanguageModel, LlmEvent, TextDelta, Usage
from app.server import Access, bind, create_app, serve
from app.telemetry.stage import StageReport

ROOT = Path(__file__).resolve().parents[2]
END = Finished("stop", Usage(5, 2, 3))

Script = Callable[[GenerateRequest], AsyncGenerator[LlmEvent, None]]


async def says_hello(request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
    for piece in ("Hel", "lo", "!"):
        yield TextDelta(piece)
    yield END


@dataclass
class ScriptedModel:
    """Does what ``script`` says; remembers what it was asked, and how many replies are open."""

    script: Script = says_hello
    asked: list[GenerateRequest] = field(default_factory=list)
    open: int = 0
    context_tokens: int = 4096
    ready: bool = True
    ready_in_s: float = 0.0

    async def load(self) -> StageReport:
        return StageReport("LLM", "scripted", 0.0, 0.0, 0.0)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        self.asked.append(request)
        self.open += 1
        try:
            async with contextlib.aclosing(self.script(request)) as events:
                async for event in events:
                    yield event
        finally:
            self.open -= 1

    async def extend(self, request: GenerateRequest) -> Usage:
        return Usage(0, 0, 0)

    async def truncate(self, session_id: str, heard_tokens: int) -> None: ...

    async def end_session(self, session_id: str) -> None: ...

    async def close(self) -> None: ...

    async def until_idle(self, within_s: float = 2.0) -> None:
        async with asyncio.timeout(within_s):
            while self.open:  # noqa: ASYNC110 - closed by the server, which does not signal
                await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def scripted_api(model: LanguageModel, **tree: dict[str, object]) -> AsyncIterator[str]:
    """The base URL of a server over ``model``; ``tree`` are sections of the settings."""
    settings = Settings.model_validate(tree)
    sock = bind("127.0.0.1", 0)
    app = create_app(settings, llm=model, access=Access.from_settings(settings.server))
    ready = asyncio.Event()
    serving = asyncio.create_task(serve(app, sock, on_ready=ready.set))
    await asyncio.wait_for(ready.wait(), 5)
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/v1"
    finally:
        serving.cancel()
        await asyncio.wait([serving])


def client(base_url: str, key: str = "any", http: httpx.AsyncClient | None = None) -> AsyncOpenAI:
    """Without the retries that would hide what a server answered first."""
    return AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=60, http_client=http)


def without_network(model: ScriptedModel) -> httpx.AsyncClient:
    """Straight into the application: for what does not depend on connections."""
    app = create_app(Settings(), llm=model)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost/v1/")


@contextlib.contextmanager
def api_process(*settings: str) -> Iterator[str]:
    """``python -m app serve --api-only`` with these key=value settings; the base URL once it is ready."""
    options = [option for setting in settings for option in ("--set", setting)]
    command = [sys.executable, "-m", "app", *options, "serve", "--api-only", "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        told: list[str] = []
        for line in process.stdout:
            told.append(line)
            if found := re.search(r"ready: (http://\S+/v1)", line):
                yield found[1]
                break
        else:
            raise AssertionError("".join(told))
    finally:
        process.terminate()
        try:
            process.wait(15)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def figures(base_url: str) -> dict[str, float]:
    """What /metrics says of the worker, by name and labels."""
    text = httpx.get(base_url.removesuffix("/v1") + "/metrics").text
    lines = (line.rpartition(" ") for line in text.splitlines() if line.startswith("parley_"))
    return {name: float(value) for name, _, value in lines}


def until_freed(base_url: str, held: float, within_s: float = 10.0) -> None:
    """Waits until no reply runs and no more blocks are held than ``held``."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        now = figures(base_url)
        blocks = now['parley_llm_kv_blocks{state="held"}']
        if now["parley_llm_running"] == now["parley_llm_queue_depth"] == 0 and blocks <= held:
            return
        time.sleep(0.02)
    raise AssertionError(f"still at work: {now}")
