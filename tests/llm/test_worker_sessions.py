"""Sessions of a real worker from the client's side: drafts, cut replies, long messages, restarts, figures."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from app.config.settings import LlmSettings, RuntimeSettings
from app.engine.messages import frame
from app.errors import ContextOverflow, StageTimeout, StageUnavailable
from app.llm import ChatMessage, Finished, GenerateRequest, Sampling, TextDelta
from app.llm.exposition import WorkerMetrics
from app.llm.local import LocalLanguageModel
from app.llm.memory import TokenGauge
from app.llm.summary import Notes, write_summary
from app.llm.wire import submission
from app.telemetry.metrics import Metrics
from tests.kit.tiny_models import save_tiny

pytestmark = pytest.mark.asyncio(loop_scope="module")

TALK = (
    ChatMessage("system", "You answer briefly and never use lists, tables, code or emoji in anything you say."),
    ChatMessage("user", "Where does the river that runs through this town come from, and where does it go?"),
    ChatMessage("assistant", "From the hills in the north, and it runs into the sea."),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalLanguageModel]:
    folder = save_tiny(tmp_path_factory.mktemp("tiny"), "llama", max_position_embeddings=4096)
    settings = LlmSettings(context_tokens=2048, quantization="none", kv_cache_mb=8, first_token_timeout_s=60.0)
    model = LocalLanguageModel(settings, RuntimeSettings(), folder)
    await model.load()
    yield model
    await model.close()


def asking(question: str, session: str | None, *, max_tokens: int = 8) -> GenerateRequest:
    sampling = Sampling(max_tokens=max_tokens, temperature=1.0, seed=3, ignore_eos=True)
    return GenerateRequest((*TALK, ChatMessage("user", question)), sampling, session, spoken=True)


async def read(model: LocalLanguageModel, request: GenerateRequest) -> tuple[str, Finished]:
    text = ""
    async for event in model.generate(request):
        if isinstance(event, Finished):
            return text, event
        assert isinstance(event, TextDelta)
        text += event.text
    raise AssertionError("no end")


async def prefilled(model: LocalLanguageModel) -> int:
    return (await model.stats()).prefill_tokens


# Drafts


async def test_a_turn_whose_beginning_was_drafted_prefills_only_the_rest(model: LocalLanguageModel) -> None:
    beginning, whole = "how long is it from the first spring", "how long is it from the first spring to the sea?"
    plain, end = await read(model, asking(whole, None))
    # Another tenant: what the plain request computed must not be what the draft finds.
    drafted = asking(beginning, "drafted")
    before = await prefilled(model)
    usage = await model.extend(_of_tenant(drafted))
    assert usage.completion_tokens == 0
    assert await prefilled(model) - before >= 0.8 * usage.prompt_tokens
    before = await prefilled(model)
    text, end = await read(model, _of_tenant(asking(whole, "drafted")))
    assert await prefilled(model) - before < 0.5 * end.usage.prompt_tokens
    assert end.usage.cached_tokens >= 0.7 * usage.prompt_tokens
    assert text == plain, "a draft changes nothing but the time"


async def test_a_draft_that_was_misheard_is_dropped_from_where_it_was_wrong(model: LocalLanguageModel) -> None:
    plain, _ = await read(model, asking("what does it taste like?", None))
    await model.extend(_of_tenant(asking("what does it tell us", "misheard")))
    text, end = await read(model, _of_tenant(asking("what does it taste like?", "misheard")))
    assert text == plain
    assert end.usage.cached_tokens > 0.5 * end.usage.prompt_tokens


async def test_the_turn_does_not_wait_for_a_draft_that_is_still_being_computed(model: LocalLanguageModel) -> None:
    plain, _ = await read(model, asking("and why?", None))
    drafting = asyncio.create_task(model.extend(asking("and " * 400, "hurried")))
    await asyncio.sleep(0)
    text, _ = await read(model, asking("and why?", "hurried"))
    await asyncio.wait([drafting], timeout=5)
    assert drafting.done()
    assert text == plain


async def test_a_draft_too_long_is_refused_like_a_turn(model: LocalLanguageModel) -> None:
    with pytest.raises(ContextOverflow):
        await model.extend(asking("x" * 9000, "long"))


# Cut replies


async def test_a_reply_cut_to_what_was_heard_goes_on_from_there(model: LocalLanguageModel) -> None:
    heard, tokens = "", 0
    async for event in model.generate(asking("tell me a story", "cut", max_tokens=40)):
        if isinstance(event, TextDelta) and tokens < 20:
            heard, tokens = heard + event.text, tokens + event.tokens
    await read(model, asking("tell me a story", "said", max_tokens=40))
    await model.truncate("cut", tokens)
    messages = (*TALK, ChatMessage("user", "tell me a story"), ChatMessage("assistant", heard))
    following = (*messages, ChatMessage("user", "stop, what was that?"))
    sampling = Sampling(max_tokens=8, temperature=1.0, seed=3)
    text, end = await read(model, GenerateRequest(following, sampling, "cut"))
    by_messages, other_end = await read(model, GenerateRequest(following, sampling, "said"))
    assert text == by_messages, "the messages say the same; it only happens sooner"
    assert end.usage.prompt_tokens == other_end.usage.prompt_tokens
    assert end.usage.cached_tokens > 0.5 * end.usage.prompt_tokens
    await model.truncate("unknown", 3)


# Messages small, the loop free


async def test_a_turn_of_a_full_context_is_a_small_message() -> None:
    talk = tuple(ChatMessage("user" if n % 2 else "assistant", "some thirty tokens of talk " * 6) for n in range(130))
    assert sum(len(message.content) for message in talk) > 4 * 4096, "as long as a conversation of 4096 tokens"
    assert len(frame([submission(1, GenerateRequest(talk), 1.0, only_prefill=False)])) < 100_000


async def test_messages_of_256_kb_do_not_hold_up_the_event_loop(model: LocalLanguageModel) -> None:
    worst_s, over = 0.0, asyncio.Event()

    async def beat() -> None:
        nonlocal worst_s
        while not over.is_set():
            # The thread's own time: what other processes take from this core is not this loop's doing.
            began, spent = time.monotonic(), time.thread_time()
            await asyncio.sleep(0.001)
            worst_s = max(worst_s, min(time.monotonic() - began, time.thread_time() - spent))

    beating = asyncio.create_task(beat())
    request = asking("many words " * 24_000, None)
    assert sum(len(message.content) for message in request.messages) > 256 * 1024
    for _ in range(3):
        with pytest.raises(ContextOverflow):
            await read(model, request)
    over.set()
    await beating
    assert worst_s < 0.05


async def test_a_deadline_counts_from_the_request_whatever_it_waited_for(model: LocalLanguageModel) -> None:
    asked = asking("go on", None, max_tokens=1500)
    hurried = GenerateRequest(asked.messages, asked.sampling, deadline_s=0.3)
    began = time.monotonic()
    with pytest.raises(StageTimeout):
        await read(model, hurried)
    assert time.monotonic() - began < 2.0
    await running(model, False)


# Restarts, each of which costs a start: what follows from one is one test


async def test_a_session_goes_on_after_its_worker_was_killed_and_at_first_did_not_start(
    model: LocalLanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, starts = model._arguments, 0

    def first_start_fails() -> list[str]:
        nonlocal starts
        starts += 1
        return ["--no-such-flag"] if starts == 1 else arguments()

    monkeypatch.setattr(model, "_arguments", first_start_fails)
    text, _ = await read(model, asking("what now?", "survivor"))
    await kill(model)
    again, end = await read(model, asking("what now?", "survivor"))
    assert starts == 2, "the request waited through the start that failed"
    assert again == text
    assert end.usage.cached_tokens == 0, "a new worker knows nothing: the conversation was prefilled again"


async def test_a_worker_that_dies_costs_the_summary_it_was_writing_and_no_counter(model: LocalLanguageModel) -> None:
    metrics = Metrics()
    metrics.add(WorkerMetrics(model))
    await read(model, asking("count this", "counted"))
    await metrics.refresh()
    before = scraped(metrics)
    assert before["parley_llm_up"] == 1
    for name in ("decode_tokens_total", "ttft_seconds_count", "inter_token_seconds_count", "batch_size_count"):
        assert before[f"parley_llm_{name}"] > 0, name
    assert before['parley_llm_step_seconds_bucket{le="+Inf"}'] == before["parley_llm_step_seconds_count"]
    pool = [before[f'parley_llm_kv_blocks{{state="{state}"}}'] for state in ("free", "cached", "held")]
    assert sum(pool) == (await model.stats()).blocks_total
    notes = Notes("", TALK[1:])
    writing = asyncio.create_task(
        write_summary(model, notes, TokenGauge(), room=1500, summary_tokens=1000, deadline_s=30.0)
    )
    await running(model, True)
    await kill(model)
    with pytest.raises(StageUnavailable):
        await writing
    await metrics.refresh()
    down = scraped(metrics)
    assert down["parley_llm_up"] == 0
    assert set(before) <= set(down), "the same names are there"
    await read(model, asking("and this", "counted"))
    await metrics.refresh()
    after = scraped(metrics)
    assert after["parley_llm_starts_total"] == before["parley_llm_starts_total"] + 1
    for name in before:
        if name.endswith(("_total", "_count", "_sum")) or "_bucket" in name:
            assert before[name] <= down[name] <= after[name], name
    assert after["parley_llm_decode_tokens_total"] > before["parley_llm_decode_tokens_total"]


async def running(model: LocalLanguageModel, wanted: bool) -> None:
    async with asyncio.timeout(5):
        while bool((await model.stats()).running) != wanted:  # noqa: ASYNC110 - another process works
            await asyncio.sleep(0.005)


async def kill(model: LocalLanguageModel) -> None:
    """The worker, and wait until that has been noticed."""
    assert model.process_id is not None
    os.kill(model.process_id, signal.SIGKILL)
    async with asyncio.timeout(5):
        while model.ready:  # noqa: ASYNC110 - another process ends
            await asyncio.sleep(0.002)


def scraped(metrics: Metrics) -> dict[str, float]:
    lines = metrics.render().decode().splitlines()
    samples = [line.rsplit(" ", 1) for line in lines if line.startswith("parley_llm_")]
    return {name: float(value) for name, value in samples if "_created" not in name}


def _of_tenant(request: GenerateRequest) -> GenerateRequest:
    return GenerateRequest(request.messages, request.sampling, request.session_id, tenant="other", spoken=True)
