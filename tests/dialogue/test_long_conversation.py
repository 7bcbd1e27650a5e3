"""The default model in a context far too small for the conversation: it goes on, within bounds, and says so."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from app.catalog import model_path
from app.config.settings import LlmSettings, RuntimeSettings
from app.llm import Finished, GenerateRequest, LlmEvent
from app.llm.local import LocalLanguageModel
from tests.kit.script import Script

CONTEXT, REPLY = 512, 32
QUESTIONS = [
    "Hello, my name is Ann and I live in Oslo.",
    "I have a dog whose name is Bruno. He is four years old.",
    "What should I feed him in the winter when it is cold?",
    "We like to walk along the river in the morning before I go to work.",
    "I work in a library, where I look after the old maps.",
    "Which old map of Norway is the most beautiful one, do you think?",
    "My sister is coming to visit me next week with her two children.",
    "What could we do with the children when it rains all day?",
    "They like dinosaurs and trains, and the little one likes to draw.",
    "Is there something that one can bake with children of that age?",
    "I have flour and apples in the house, but neither eggs nor butter.",
    "Thank you. Tell me one more thing about dinosaurs before I go.",
]


class Counted(LocalLanguageModel):
    """Keeps what was asked and how many tokens it was."""

    def __init__(self, settings: LlmSettings, folder: Path) -> None:
        super().__init__(settings, RuntimeSettings(), folder)
        self.counted: list[tuple[GenerateRequest, Finished]] = []

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LlmEvent, None]:
        async with aclosing(super().generate(request)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    self.counted.append((request, event))
                yield event


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_twelve_turns_in_a_context_of_512_tokens(store: Path) -> None:
    keys = {"context_tokens": CONTEXT, "max_tokens": REPLY, "first_token_timeout_s": 60.0, "stall_timeout_s": 20.0}
    model = Counted(LlmSettings.model_validate(keys), model_path("smollm2-135m-instruct", store, kind="llm"))
    await model.load()
    try:
        async with Script(llm=model, pace=40.0, llm_=keys) as script:
            for number, question in enumerate(QUESTIONS, start=1):
                content = [{"type": "input_text", "text": question}]
                item = {"type": "message", "role": "user", "content": content}
                script.session.receive({"type": "conversation.item.create", "item": item})
                script.session.receive({"type": "response.create"})
                await script.until_event("response.done", count=number, timeout_s=90.0)
                # The user takes a breath: a summary that is being written has that long.
                await script.wait(0.5)
            await script.until(lambda: script.session.state.memory.pending is None, 60.0)
            statuses = [event["response"]["status"] for event in script.told("response.done")]
            assert statuses == ["completed"] * len(QUESTIONS)
            assert script.told("error") == []
            told = script.told("parley.context")
            assert told, "what left has been told"
            assert any(event["summary"] and event["complete"] for event in told)
            turns = [finished for request, finished in model.counted if request.priority != "low"]
            summaries = [finished for request, finished in model.counted if request.priority == "low"]
            assert len(turns) == len(QUESTIONS)
            assert summaries
            for finished in (*turns, *summaries):
                assert finished.usage.prompt_tokens + finished.usage.completion_tokens <= CONTEXT
            said = [text for role, text in script.history if role == "user"]
            assert said == QUESTIONS, "the history is complete whatever the model was shown"
            cuts = len(told)
            reused = [finished.usage.cached_tokens > 0.4 * finished.usage.prompt_tokens for finished in turns[1:]]
            assert reused.count(False) <= cuts, "between two cuts a turn computes only what is new"
    finally:
        await model.close()
