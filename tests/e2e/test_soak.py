"""A hundred calls with real models: everything they held is given back."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from pathlib import Path

import numpy as np
import psutil
import pytest

from app.config import Settings
from app.llm.local import LocalLanguageModel
from app.transports.webrtc import WebRtcCalls
from tests.kit.browser import loopback_media
from tests.kit.stages import real_parley
from tests.kit.webrtc_client import WebRtcClient

ROUNDS, AT_ONCE = 25, 4
QUESTION = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Tell me a story."}]}


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_hundred_calls_that_hang_up_in_mid_reply_give_back_tasks_threads_files_blocks_and_memory(
    store: Path, settings: Settings
) -> None:
    async with real_parley(settings) as parley:
        llm = parley.stages.llm
        assert isinstance(llm, LocalLanguageModel)
        calls = WebRtcCalls(parley.host, settings.server)
        microphone = np.zeros(48_000, np.int16)

        async def cycle() -> None:
            async with WebRtcClient(calls.offer, microphone) as client:
                client.send(json.dumps({"type": "conversation.item.create", "item": QUESTION}))
                client.send(json.dumps({"type": "response.create"}))
                async with asyncio.timeout(20):
                    while not any(event["type"].endswith("transcript.delta") for event in client.events):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                await calls.hang_up(client.call_id)

        async def rounds(count: int) -> None:
            for _ in range(count):
                await asyncio.gather(*(cycle() for _ in range(AT_ONCE)))

        def held() -> tuple[int, int, int]:
            gc.collect()
            return len(asyncio.all_tasks()), threading.active_count(), psutil.Process().num_fds()

        def resident_mb() -> float:
            return float(psutil.Process().memory_info().rss) / 2**20

        with loopback_media():
            await rounds(5)
            await asyncio.sleep(0.5)
            before, before_mb = held(), resident_mb()
            await rounds(ROUNDS)
            await asyncio.sleep(0.5)
            after, after_mb = held(), resident_mb()
        print(f"held {before} -> {after}, resident {before_mb:.0f} -> {after_mb:.0f} MiB")
        assert all(later <= earlier + 2 for earlier, later in zip(before, after, strict=True)), (before, after)
        assert after_mb - before_mb < 25, f"{before_mb:.0f} -> {after_mb:.0f} MiB"
        assert parley.host.active == 0
        figures = await llm.stats()
        assert figures.running == figures.waiting == figures.sessions == figures.blocks_held == 0
        assert figures.blocks_free + figures.blocks_cached == figures.blocks_total
