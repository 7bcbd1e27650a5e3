"""The worker process through its client: streaming, cancelling, dying, hanging, closing."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from app.config.settings import LlmSettings, RuntimeSettings
from app.engine.messages import Figures
from app.errors import ContextOverflow, InvalidRequest, ModelError, StageTimeout, StageUnavailable
from app.llm.base import ChatMessage, Finished, GenerateRequest, Sampling, TextDelta
from app.llm.local import LocalLanguageModel
from tests.kit.tiny_models import save_tiny

LONG = 400


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalLanguageModel]:
    """One worker for all: what one test leaves behind would fail the next."""
    folder = save_tiny(tmp_path_factory.mktemp("tiny"), "llama", max_position_embeddings=4096)
    settings = LlmSettings(context_tokens=2048, quantization="none", kv_cache_mb=8, first_token_timeout_s=60.0)
    model = LocalLanguageModel(settings, RuntimeSettings(), folder)
    await model.load()
    yield model
    await model.close()


def request(text: str, *, max_tokens: int = 16, session: str | None = None, seed: int = 1) -> GenerateRequest:
    # Drawn, not greedy: random weights at temperature 0 soon loop, and a loop is cut.
    sampling = Sampling(max_tokens=max_tokens, temperature=1.0, seed=seed, ignore_eos=True)
    return GenerateRequest((ChatMessage("user", text),), sampling, session)


async def read(model: LocalLanguageModel, asked: GenerateRequest) -> tuple[str, Finished]:
    text, end = "", None
    async for event in model.generate(asked):
        if isinstance(event, TextDelta):
            text += event.text
        else:
            end = event
    assert end is not None
    return text, end


async def until(model: LocalLanguageModel, holds: Callable[[Figures], bool], within_s: float = 3.0) -> Figures:
    deadline = time.monotonic() + within_s
    while True:
        figures = await model.stats()
        if holds(figures):
            return figures
        assert time.monotonic() < deadline, figures
        await asyncio.sleep(0.01)


async def expect_unavailable(reading: Awaitable[object]) -> None:
    with pytest.raises(StageUnavailable, match=r"restarted|gone down"):
        await reading


async def test_closing_a_reply_frees_its_blocks(model: LocalLanguageModel) -> None:
    before = await model.stats()
    streams = [model.generate(request(f"number {number}", max_tokens=LONG)) for number in range(4)]
    for stream in streams:
        await anext(stream)
    assert (await model.stats()).blocks_held > 0
    for stream in streams:
        await stream.aclose()
    figures = await until(model, lambda found: found.running == 0 and found.blocks_held == 0)
    assert figures.cancelled == before.cancelled + 4
    assert figures.blocks_free + figures.blocks_cached == figures.blocks_total


async def test_cancelling_the_reader_cancels_the_work(model: LocalLanguageModel) -> None:
    reading = asyncio.create_task(read(model, request("hello", max_tokens=LONG)))
    await until(model, lambda found: found.running == 1)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await until(model, lambda found: found.running == 0 and found.blocks_held == 0)


async def test_a_prompt_too_long_is_refused_while_others_stream(model: LocalLanguageModel) -> None:
    others = [asyncio.create_task(read(model, request(f"n{number}", max_tokens=60))) for number in range(4)]
    with pytest.raises(ContextOverflow, match=r"llm\.context_tokens"):
        await read(model, request("x" * 5000))
    for _, end in await asyncio.gather(*others):
        assert end.reason in ("length", "stop")


async def test_a_huge_prompt_is_refused_while_another_reply_streams(model: LocalLanguageModel) -> None:
    stream = model.generate(request("chat", max_tokens=LONG))
    await anext(stream)
    refused = asyncio.create_task(read(model, request("한국어 word " * 15_000)))
    pieces = 0
    async for _ in stream:
        pieces += 1
        if refused.done():
            break
    await stream.aclose()
    with pytest.raises(ContextOverflow):
        await refused
    assert pieces > 1


async def test_a_reply_that_ends_at_its_deadline_is_counted_as_that(model: LocalLanguageModel) -> None:
    before = await model.stats()
    with pytest.raises(StageTimeout, match="within its deadline"):
        await read(model, replace(request("hello", max_tokens=1500), deadline_s=0.2))
    after = await model.stats()
    assert (after.timed_out - before.timed_out, after.cancelled - before.cancelled) == (1, 0)


async def test_a_session_is_cut_and_ended_in_the_name_of_its_tenant(model: LocalLanguageModel) -> None:
    before = (await model.stats()).sessions
    await read(model, replace(request("hello", session="s"), tenant="one"))
    await model.end_session("s")
    assert (await model.stats()).sessions == before + 1
    await model.end_session("s", "one")
    await until(model, lambda found: found.sessions == before)


async def test_what_is_wrong_with_a_request_is_named_across_the_socket(model: LocalLanguageModel) -> None:
    asked = request("hello")
    for change, field in (({"logit_bias": {1 << 20: 1.0}}, "logit_bias"), ({"json_schema": "[]"}, "json_schema")):
        with pytest.raises(InvalidRequest, match=field) as caught:
            await read(model, replace(asked, sampling=replace(asked.sampling, **change)))  # type: ignore[arg-type]
        assert caught.value.param == field


async def test_killed_mid_reply_it_fails_at_once_and_answers_the_next_request(model: LocalLanguageModel) -> None:
    before = await read(model, request("hello", session="s"))
    assert before[0]
    stream = model.generate(request("go on and on", max_tokens=LONG))
    await anext(stream)
    victim = model.process_id
    assert victim is not None
    assert model.ready_in_s == 0.0
    model._start_s = 40.0
    began = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(StageUnavailable, match=r"restarted|gone down") as caught:
        await _exhaust(stream)
    assert time.monotonic() - began < 1.0
    assert 40.0 < caught.value.retry_after_s < 55.0, "as long as the last start took, and what comes before it"
    assert 30.0 < model.ready_in_s < 55.0
    after = await read(model, request("hello", session="s"))
    assert after[0] == before[0], "the session is rebuilt from its messages"
    assert model.process_id != victim
    assert model.ready_in_s == 0.0
    assert 0.1 < model._start_s < 40.0


async def test_a_frozen_worker_is_noticed_and_replaced(
    model: LocalLanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = model._worker
    assert worker is not None
    monkeypatch.setattr(worker, "_hang_s", 0.3)
    victim = model.process_id
    assert victim is not None
    os.kill(victim, signal.SIGSTOP)
    deadline = time.monotonic() + 20
    while psutil.pid_exists(victim):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert (await read(model, request("hello")))[0]


async def test_closing_leaves_no_process_and_no_task(model: LocalLanguageModel) -> None:
    process = model.process_id
    assert process is not None
    reading = asyncio.create_task(read(model, request("hello", max_tokens=LONG)))
    await until(model, lambda found: found.running == 1)
    await model.close()
    await expect_unavailable_or_closed(reading)
    assert not psutil.pid_exists(process)
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("llm-")] == []
    await model.close()


async def expect_unavailable_or_closed(reading: Awaitable[object]) -> None:
    with pytest.raises(StageUnavailable):
        await reading


async def test_a_worker_whose_parent_is_gone_ends(tmp_path: Path) -> None:
    socket = tmp_path / "worker.sock"
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app.engine.worker", "--socket", str(socket), "--model", str(tmp_path)),
        stdin=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    async with asyncio.timeout(20):
        while not socket.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
    # What the system does with the pipe when the parent is killed.
    assert worker.stdin is not None
    worker.stdin.close()
    async with asyncio.timeout(6):
        await worker.wait()
    assert not socket.exists()


async def test_a_folder_without_a_model_is_a_model_error(tmp_path: Path) -> None:
    broken = LocalLanguageModel(LlmSettings(), RuntimeSettings(), tmp_path)
    with pytest.raises(ModelError, match=str(tmp_path)):
        await broken.load()
    await broken.close()


@pytest.mark.parametrize(("limit", "told"), [(512, "the model's own limit"), (200_000, "raise llm.kv_cache_mb (8)")])
async def test_a_context_that_cannot_be_given_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, limit: int, told: str
) -> None:
    folder = save_tiny(tmp_path, "llama", max_position_embeddings=limit)
    settings = LlmSettings(model="the/name-given", quantization="none", kv_cache_mb=8, context_tokens=1_000_000)
    model = LocalLanguageModel(settings, RuntimeSettings(), folder)
    report = await model.load()
    await model.close()
    assert "local the/name-given, " in report.detail
    assert f"context {model.context_tokens} tokens" in report.detail
    assert model.context_tokens <= limit
    fields = next(record for record in caplog.records if record.getMessage() == "llm.context_cut").parley_fields  # type: ignore[attr-defined]
    assert (fields["key"], fields["given"]) == ("llm.context_tokens", model.context_tokens)
    assert told in fields["why"]


async def test_what_the_worker_logs_has_the_one_form_and_its_reasons(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = LlmSettings(quantization="none", kv_cache_mb=8, context_tokens=128)
    model = LocalLanguageModel(settings, RuntimeSettings(), save_tiny(tmp_path, "llama"))
    await model.load()
    await model.close()
    told = re.findall(r"^\S+Z info app\.engine\.choose llm\.runner .*$", capfd.readouterr().err, re.MULTILINE)
    assert len(told) == 1
    assert "runner=lean" in told[0]
    assert 'passed_over="native: the native kernels' in told[0]


async def test_the_real_model_says_what_it_holds_and_remembers_a_session(smollm2: Path) -> None:
    model = LocalLanguageModel(LlmSettings(), RuntimeSettings(), smollm2)
    report = await model.load()
    try:
        assert report.stage == "LLM"
        assert report.memory_mb > 200
        question = ChatMessage("user", "What is the capital of France?")
        first, _ = await read(model, GenerateRequest((question,), session_id="s"))
        messages = (question, ChatMessage("assistant", first), ChatMessage("user", "And of Italy?"))
        second, end = await read(model, GenerateRequest(messages, session_id="s"))
        assert "Paris" in first
        assert "Rome" in second
        assert end.usage.cached_tokens > 0.6 * end.usage.prompt_tokens
        await model.end_session("s")
        await until(model, lambda found: found.sessions == 0 and found.blocks_held == 0)
    finally:
        await model.close()


async def _exhaust(stream: AsyncIterator[object]) -> None:
    async for _ in stream:
        pass
