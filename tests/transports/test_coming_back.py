"""Real peer connections that are lost and come back, on the real session host and scripted stages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from app.audio.frames import Pcm
from app.config import Settings
from app.dialogue.host import Host
from app.dialogue.phrasebook import PhraseBook
from app.dialogue.ports import LastHeard
from app.dialogue.stages import Stages
from app.errors import ResumeExpired, SessionLimit
from app.transports.answer import Answer
from app.transports.start import AFRESH, Start
from app.transports.webrtc import WebRtcCalls
from tests.kit.browser import loopback_media
from tests.kit.script import FakeLanguageModel, FakeRecognizer, FakeTurnModel, FakeVoice, LoudnessDetector
from tests.kit.speech import sounding
from tests.kit.webrtc_client import WebRtcClient

FIRST = "This is the first part of it. "
REPLY = FIRST + "And this is the second part. Here it ends."


@pytest.fixture(autouse=True)
def _loopback() -> Iterator[None]:
    with loopback_media():
        yield


class HummingVoice(FakeVoice):
    """Its sound survives Opus, which takes out what does not swing."""

    async def synthesize(
        self, text: str, *, slack_s: float = 0.0, voice: str = "", speed: float | None = None
    ) -> AsyncGenerator[Pcm, None]:
        async for pcm in super().synthesize(text, slack_s=slack_s, voice=voice, speed=speed):
            yield (8000 * np.sin(2 * np.pi * 400 * np.arange(len(pcm)) / self.rate_hz)).astype(np.int16)


@dataclass
class World:
    host: Host
    calls: WebRtcCalls

    def client(self, start: Start = AFRESH) -> WebRtcClient:
        async def answer(sdp: str, kind: str) -> Answer:
            return await self.calls.offer(sdp, kind, start)

        return WebRtcClient(answer, np.zeros(48_000, np.int16))

    async def connected(self, stack: AsyncExitStack, start: Start = AFRESH) -> WebRtcClient:
        return await stack.enter_async_context(self.client(start))


@asynccontextmanager
async def world(**server: object) -> AsyncIterator[World]:
    settings = Settings.model_validate({"server": server, "audio": {"echo_guard": False}})
    voice = HummingVoice()
    stages = Stages(
        new_voice_detector=lambda: LoudnessDetector(settings.vad.silence_ms),
        asr=FakeRecognizer(),
        llm=FakeLanguageModel(replies=[[REPLY]]),
        tts=voice,
        turn=FakeTurnModel(),
        phrases=await PhraseBook.prepare(voice, "en"),
    )
    host = Host(stages, settings)
    calls = WebRtcCalls(host, settings.server)
    try:
        yield World(host, calls)
    finally:
        await calls.close_all()
        await host.close()


def told(client: WebRtcClient, type: str) -> list[dict[str, Any]]:
    return [event for event in client.events if event["type"] == type]


async def until(condition: Callable[[], object], timeout_s: float = 8.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def token_of(client: WebRtcClient) -> str:
    await until(lambda: told(client, "session.created"))
    return str(told(client, "session.created")[0]["session"]["resume"]["token"])


def ask(client: WebRtcClient, text: str) -> None:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    client.send(json.dumps({"type": "conversation.item.create", "item": item}))
    client.send(json.dumps({"type": "response.create"}))


async def test_a_reply_that_lost_its_connection_goes_on_over_the_next() -> None:
    async with world() as here:
        async with here.client() as first:
            token = await token_of(first)
            ask(first, "tell me")
            await until(lambda: any(event["chars"] > len(FIRST) for event in told(first, "parley.heard")))
            last = told(first, "parley.heard")[-1]
        await until(lambda: here.calls.active == 0)
        assert here.host.active == 1, "the session waits"
        start = Start(token=token, heard=LastHeard(last["response_id"], len(FIRST) + 3))
        async with here.client(start) as again:
            await until(lambda: told(again, "response.done"), 15.0)
            created = told(again, "session.created")[0]["session"]
            assert created["resumed"] is True
            assert told(again, "parley.history")[0]["items"][0]["text"] == "tell me"
            assert told(again, "response.created")[0]["response"]["id"] == last["response_id"]
            assert told(again, "response.output_audio_transcript.delta")[0]["delta"] == REPLY
            assert told(again, "parley.heard")[0]["chars"] == len(FIRST)
            assert told(again, "response.done")[0]["response"]["status"] == "completed"
            begin, end = sounding(again.sound())
            assert (end - begin) / 48_000 == pytest.approx((len(REPLY) - len(FIRST)) * 0.04, abs=0.4)


async def test_of_two_clients_with_one_token_the_newer_wins_and_the_older_is_told_at_once() -> None:
    async with world() as here, AsyncExitStack() as stack:
        older = await here.connected(stack)
        newer = await here.connected(stack, Start(token=await token_of(older)))
        await until(lambda: told(older, "parley.closed"))
        assert told(older, "parley.closed")[0]["reason"] == "replaced"
        await until(lambda: older.connection.connectionState == "closed")
        assert (here.calls.active, here.host.active) == (1, 1)
        newer.send('{"type": "parley.ping", "id": 1}')
        await until(lambda: told(newer, "parley.pong"))
        await here.calls.hang_up(older.call_id)
        assert here.host.active == 1, "whoever was replaced cannot end it"


async def test_a_token_opens_its_own_session_only_and_none_that_is_over() -> None:
    async with world() as here, AsyncExitStack() as stack:
        one, other = [await here.connected(stack) for _ in range(2)]
        tokens = [await token_of(client) for client in (one, other)]
        assert tokens[0] != tokens[1]
        again = await here.connected(stack, Start(token=tokens[0]))
        await until(lambda: told(again, "session.created"))
        ids = [told(client, "session.created")[0]["session"]["id"] for client in (one, other, again)]
        assert ids[2] == ids[0] != ids[1]
        assert not told(other, "parley.closed")
        for wrong in ("guessed", ids[1], tokens[1][:-1]):
            with pytest.raises(ResumeExpired):
                async with here.client(Start(token=wrong)):
                    pass
        await here.calls.hang_up(other.call_id)
        with pytest.raises(ResumeExpired):
            async with here.client(Start(token=tokens[1])):
                pass


async def test_a_token_expires() -> None:
    async with world(resume_s=1.0) as here:
        async with here.client() as first:
            token = await token_of(first)
            await here.calls.hang_up(first.call_id, leave=True)
            assert here.host.active == 1
        await until(lambda: here.host.active == 0)
        with pytest.raises(ResumeExpired):
            async with here.client(Start(token=token)):
                pass


async def test_whoever_calls_goes_before_those_who_left_and_the_longest_gone_makes_way() -> None:
    async with world(max_sessions=2) as here, AsyncExitStack() as stack:
        left = []
        for _ in range(2):
            async with here.client() as client:
                left.append(await token_of(client))
            await until(lambda: here.calls.active == 0)
        assert here.host.active == 2
        await here.connected(stack)
        with pytest.raises(ResumeExpired):
            await here.connected(stack, Start(token=left[0]))
        await here.connected(stack, Start(token=left[1]))
        assert here.host.active == 2
        with pytest.raises(SessionLimit, match="max_sessions"):
            await here.connected(stack)


async def test_an_offer_that_cannot_be_used_does_not_cost_the_session_that_it_wanted_to_resume() -> None:
    async with world() as here:
        async with here.client() as first:
            token = await token_of(first)
        await until(lambda: here.calls.active == 0)
        with pytest.raises(Exception, match="offer"):
            await here.calls.offer("v=0\r\nm=audio opus/48000\r\n", "offer", Start(token=token))
        async with here.client(Start(token=token)) as again:
            await until(lambda: told(again, "parley.history"))
