"""What a session's language model and voice do: replies, drafts read ahead of a turn, summaries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable

from app.audio.playout import Playout
from app.config import Settings
from app.dialogue import commands as do
from app.dialogue import events as ev
from app.dialogue.setup import sampling
from app.dialogue.speaking import Manner, ReplySpeaker, write_reply
from app.dialogue.stages import Stages
from app.errors import StageError
from app.llm import ChatMessage, GenerateRequest, LlmEvent, TextDelta
from app.llm.summary import Notes, write_summary
from app.telemetry.log import log_event

_log = logging.getLogger("parley.session")


class Thinker:
    """Runs the replies of one session in tasks of ``group`` and posts what comes of them: one at a time of each kind."""

    def __init__(
        self,
        session_id: str,
        stages: Stages,
        settings: Settings,
        playout: Playout,
        group: asyncio.TaskGroup,
        post: Callable[[ev.Event], None],
    ) -> None:
        self.manner = Manner(stages.phrases.language)
        """How replies are spoken from now on."""
        self._session_id = session_id
        self._stages = stages
        self._settings = settings
        self._playout = playout
        self._group = group
        self._post = post
        self._reply_task: asyncio.Task[None] | None = None
        self._draft_task: asyncio.Task[None] | None = None
        self._summary_task: asyncio.Task[None] | None = None

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        own = (self._reply_task, self._draft_task, self._summary_task)
        return [task for task in own if task is not None]

    def generate(self, command: do.Generate) -> None:
        self._drop_draft()  # the worker keeps what it has read
        request = self._request(command.messages, spoken=command.spoken)
        self._reply(command.generation, self._stages.llm.generate(request), command.spoken)

    def say(self, command: do.Say) -> None:
        self._reply(command.generation, _fixed_text(command.text), command.spoken)

    def say_phrase(self, command: do.SayPhrase) -> None:
        sound = self._stages.phrases.sound(command.phrase)
        self._playout.begin(command.generation)
        self._playout.write(command.generation, sound)
        self._playout.finish(command.generation)
        self._post(ev.ReplySoundEnded(command.generation, len(sound)))

    def cancel(self, generation: int) -> None:
        self._playout.finish(generation)
        if self._reply_task is not None:
            self._reply_task.cancel()
            self._reply_task = None

    def draft(self, command: do.Draft) -> None:
        self._drop_draft()
        self._draft_task = self._group.create_task(self._draft(command))

    def summarise(self, command: do.Summarise) -> None:
        self._summary_task = self._group.create_task(self._summarise(command))

    def _reply(self, generation: int, events: AsyncGenerator[LlmEvent, None], spoken: bool) -> None:
        if spoken:
            self._playout.begin(generation)
        self._reply_task = self._group.create_task(self._guard_reply(generation, events, spoken))

    async def _guard_reply(self, generation: int, events: AsyncGenerator[LlmEvent, None], spoken: bool) -> None:
        try:
            if spoken:
                speaker = ReplySpeaker(generation, self.manner, self._stages.tts, self._playout, self._post)
                await speaker.run(events)
            else:
                await write_reply(generation, events, self._post)
        except Exception as error:
            log_event(_log, "reply_broke", level=logging.ERROR, error=error, session=self._session_id)
            message = "The reply broke; see the server's log."
            self._post(ev.ReplyFailed(generation, "llm", "internal_error", message))

    def _drop_draft(self) -> None:
        if self._draft_task is not None:
            self._draft_task.cancel()
            self._draft_task = None

    async def _draft(self, command: do.Draft) -> None:
        try:
            await self._stages.llm.extend(self._request(command.messages, spoken=True))
        except StageError as error:  # a hint that was not taken
            log_event(_log, "draft_failed", level=logging.DEBUG, session=self._session_id, code=error.code)
        except Exception as error:
            log_event(_log, "draft_broke", level=logging.ERROR, error=error, session=self._session_id)

    def _request(self, messages: tuple[ChatMessage, ...], *, spoken: bool) -> GenerateRequest:
        return GenerateRequest(messages, sampling(self._settings), self._session_id, spoken=spoken)

    async def _summarise(self, command: do.Summarise) -> None:
        try:
            text = await write_summary(
                self._stages.llm,
                Notes(command.summary, command.messages),
                command.gauge,
                room=command.budget.room,
                summary_tokens=command.budget.summary_tokens,
                deadline_s=self._settings.llm.summary_timeout_s,
            )
        except StageError as error:
            log_event(_log, "summary_failed", level=logging.WARNING, session=self._session_id, code=error.code)
            self._post(ev.SummaryFailed(command.start, error.code, str(error)))
        except Exception as error:
            log_event(_log, "summary_broke", level=logging.ERROR, error=error, session=self._session_id)
            self._post(ev.SummaryFailed(command.start, "internal_error", "The summary broke; see the server's log."))
        else:
            self._post(ev.Summarised(command.start, text))


async def _fixed_text(text: str) -> AsyncGenerator[LlmEvent, None]:
    yield TextDelta(text)
