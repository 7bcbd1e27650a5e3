"""The API over the real default model in its worker, as OpenAI's own client sees it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import openai
import pytest
from tokenizers import Tokenizer

from app.catalog import model_path
from tests.kit.api_server import api_process, client, figures, until_freed

CONTEXT = 1024
STORY = [{"role": "user", "content": "Tell me a story about a fox."}]
HELD = 'parley_llm_kv_blocks{state="held"}'


@pytest.fixture(scope="module")
def url(store: Path) -> Iterator[str]:
    with api_process(f"llm.context_tokens={CONTEXT}", "llm.kv_cache_mb=128") as url:
        yield url


@pytest.fixture(scope="module")
def tokenizer(store: Path) -> Tokenizer:
    return Tokenizer.from_file(str(model_path("smollm2-135m-instruct", store, kind="llm") / "tokenizer.json"))


@pytest.fixture
async def api(url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with client(url) as api:
        yield api


async def ask(api: openai.AsyncOpenAI, messages: object = STORY, **more: object) -> openai.types.chat.ChatCompletion:
    options = {"model": "default", "temperature": 0, "max_tokens": 24} | more
    return await api.chat.completions.create(messages=messages, **options)  # type: ignore[call-overload,no-any-return]


def text_of(reply: openai.types.chat.ChatCompletion) -> str:
    return reply.choices[0].message.content or ""


async def read(api: openai.AsyncOpenAI, messages: object = STORY, **more: object) -> str:
    """The text of a stream."""
    stream = await ask(api, messages, stream=True, **more)
    pieces = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]  # type: ignore[attr-defined]
    return "".join(pieces)


def numbered(number: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"Tell me {number + 2} things about the number {number}."}]


async def test_a_stream_says_what_the_whole_reply_says(api: openai.AsyncOpenAI) -> None:
    reply = await ask(api)
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 24
    assert text_of(reply)
    assert await read(api) == text_of(reply)


async def test_a_second_turn_computes_only_what_is_new(api: openai.AsyncOpenAI) -> None:
    session = {"session_id": "second-turn"}
    first = await ask(api, extra_body=session)
    turns = [*STORY, {"role": "assistant", "content": text_of(first)}, {"role": "user", "content": "And then?"}]
    second = await ask(api, turns, extra_body=session)
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.prompt_tokens_details is not None
    cached = second.usage.prompt_tokens_details.cached_tokens or 0
    # All of the first turn but the last token, which was drawn and not run.
    assert cached >= first.usage.prompt_tokens + first.usage.completion_tokens - 1


async def test_a_reply_ends_before_a_stop_string(api: openai.AsyncOpenAI) -> None:
    whole = text_of(await ask(api))
    stop = whole[20:26]
    stopped = await ask(api, stop=[stop, "never said"])
    assert text_of(stopped) == whole[: whole.index(stop)]
    assert stopped.choices[0].finish_reason == "stop"


async def test_a_seed_makes_a_reply_repeatable(api: openai.AsyncOpenAI) -> None:
    drawn = [text_of(await ask(api, temperature=1.0, seed=seed)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


async def test_log_probabilities_are_those_of_the_tokens_drawn(api: openai.AsyncOpenAI) -> None:
    reply = (await ask(api, max_tokens=8, logprobs=True, top_logprobs=3)).choices[0]
    assert reply.logprobs is not None
    entries = reply.logprobs.content or []
    assert len(entries) == 8
    assert "".join(entry.token for entry in entries) == reply.message.content
    for entry in entries:
        assert entry.token == entry.top_logprobs[0].token, "temperature 0 draws the likeliest"
        assert entry.logprob == entry.top_logprobs[0].logprob <= 0
        assert len(entry.top_logprobs) == 3


async def test_a_bias_forbids_a_token(api: openai.AsyncOpenAI, tokenizer: Tokenizer) -> None:
    first = tokenizer.encode(text_of(await ask(api, max_tokens=6)), add_special_tokens=False).ids[0]
    biased = await ask(api, max_tokens=6, logit_bias={str(first): -100})
    assert tokenizer.encode(text_of(biased), add_special_tokens=False).ids[0] != first


async def test_a_schema_shapes_the_reply(api: openai.AsyncOpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 20}, "legs": {"type": "integer", "maximum": 9}},
        "required": ["name", "legs"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "animal", "schema": schema, "strict": True}}
    question = [{"role": "user", "content": "Name an animal and count its legs."}]
    reply = await ask(api, question, response_format=form, max_tokens=80)
    assert reply.choices[0].finish_reason == "stop"
    animal = json.loads(text_of(reply))
    assert set(animal) == {"name", "legs"}
    assert isinstance(animal["legs"], int)
    anything = await ask(api, question, response_format={"type": "json_object"}, max_tokens=200)
    if anything.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(text_of(anything)), dict)


async def test_this_models_template_knows_no_tools(api: openai.AsyncOpenAI) -> None:
    tool = {"type": "function", "function": {"name": "look_up"}}
    with pytest.raises(openai.BadRequestError, match="template knows no tools") as caught:
        await ask(api, tools=[tool])
    assert caught.value.param == "tools"


async def test_a_schema_or_a_bias_that_the_model_cannot_take_is_blamed_on_its_field(api: openai.AsyncOpenAI) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "array", "uniqueItems": True}}}
    for field, value in (("response_format", form), ("logit_bias", {"49152": 1})):
        with pytest.raises(openai.BadRequestError) as caught:
            await ask(api, **{field: value})
        assert caught.value.param == field


async def test_a_plain_prompt_goes_on_from_text_or_from_its_ids(api: openai.AsyncOpenAI, tokenizer: Tokenizer) -> None:
    prompt = "Once upon a time there was a"
    ids = tokenizer.encode(prompt, add_special_tokens=False).ids
    texts = [
        (await api.completions.create(model="default", prompt=form, temperature=0, max_tokens=8)).choices[0].text
        for form in (prompt, ids)
    ]
    assert texts[0] == texts[1] != ""
    with pytest.raises(openai.BadRequestError, match="token id"):
        await api.completions.create(model="default", prompt=[1 << 30])


async def test_a_reply_that_may_not_end_has_the_length_that_was_asked(api: openai.AsyncOpenAI) -> None:
    hi = [{"role": "user", "content": "Say only: yes"}]
    reply = await ask(api, hi, max_tokens=60, extra_body={"ignore_eos": True})
    assert reply.usage is not None
    assert (reply.usage.completion_tokens, reply.choices[0].finish_reason) == (60, "length")


async def test_a_reply_ends_at_its_deadline(api: openai.AsyncOpenAI, url: str) -> None:
    before = figures(url)["parley_llm_timeouts_total"]
    with pytest.raises(openai.InternalServerError) as caught:
        await ask(api, max_tokens=800, extra_body={"timeout": 0.3, "ignore_eos": True})
    assert caught.value.status_code == 504
    assert figures(url)["parley_llm_timeouts_total"] == before + 1


async def test_a_prompt_too_long_is_refused_among_streams_that_go_on(api: openai.AsyncOpenAI) -> None:
    alone = [await read(api, numbered(number)) for number in range(4)]
    streams = [asyncio.create_task(read(api, numbered(number))) for number in range(4)]
    for long in ("word " * 2 * CONTEXT, "x" * 200_000):
        with pytest.raises(openai.BadRequestError) as caught:
            await ask(api, [{"role": "user", "content": long}])
        assert caught.value.code == "context_length_exceeded"
    assert await asyncio.gather(*streams) == alone


async def test_one_client_that_drops_leaves_the_words_of_the_others_alone(api: openai.AsyncOpenAI) -> None:
    alone = [await read(api, numbered(number), max_tokens=12) for number in range(7)]
    dropping = asyncio.create_task(read(api, STORY, max_tokens=400))
    together = [asyncio.create_task(read(api, numbered(number), max_tokens=12)) for number in range(7)]
    await asyncio.wait(together, return_when=asyncio.FIRST_COMPLETED, timeout=0.3)
    dropping.cancel()
    assert await asyncio.gather(*together) == alone


@pytest.mark.parametrize(
    ("stream", "words", "leave_after_s"),
    [(True, 900, 0.0), (True, 900, 0.1), (False, 900, 0.1), (True, 5, 0.4), (False, 5, 0.4)],
    ids=["at once", "prefill of a stream", "prefill of a whole reply", "decoding a stream", "decoding a whole reply"],
)
async def test_a_client_that_leaves_frees_its_blocks(url: str, stream: bool, words: int, leave_after_s: float) -> None:
    until_freed(url, figures(url)[HELD])
    before = figures(url)
    body = {
        "model": "default",
        "messages": [{"role": "user", "content": f"{leave_after_s} {stream} " + "word " * words}],
        "max_tokens": 100,
        "stream": stream,
        "ignore_eos": True,
    }
    async with httpx.AsyncClient(timeout=30) as plain:
        asking = asyncio.create_task(plain.post(f"{url}/chat/completions", json=body))
        await asyncio.wait([asking], timeout=leave_after_s)
        asking.cancel()
        await asyncio.wait([asking])
    await asyncio.to_thread(until_freed, url, before[HELD])
    assert figures(url)["parley_llm_finished_total"] == before["parley_llm_finished_total"], "it did not run to its end"
