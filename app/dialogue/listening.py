"""What a session's recognition does: transcripts, looks at words half said, verdicts of the turn model."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

from app.audio.utterance import UtteranceRecorder
from app.dialogue import commands as do
from app.dialogue import events as ev
from app.dialogue.stages import Stages
from app.errors import StageError
from app.telemetry.log import log_event

_log = logging.getLogger("parley.session")


class Listener:
    """Runs recognition of one session in tasks of ``group`` and posts what comes of it."""

    def __init__(
        self,
        session_id: str,
        stages: Stages,
        language: str,
        recorder: UtteranceRecorder,
        group: asyncio.TaskGroup,
        post: Callable[[ev.Event], None],
    ) -> None:
        """``language`` is an ISO 639-1 code, or "auto"."""
        self._session_id = session_id
        self._stages = stages
        self.language = language
        """What to expect from now on."""
        self._recorder = recorder
        self._group = group
        self._post = post
        self._running: dict[tuple[str, int], list[asyncio.Task[None]]] = {}
        """By utterance and revision."""
        self._preview: asyncio.Task[None] | None = None
        self._expected = ""
        """Language that was spoken last."""

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        tasks = [task for running in self._running.values() for task in running]
        return tasks if self._preview is None else [*tasks, self._preview]

    def transcribe(self, command: do.Transcribe) -> None:
        self._drop_preview()  # the whole of it is being recognised now
        self._start(command.utterance_id, command.revision, self._transcribe(command))

    def judge(self, command: do.JudgeTurn) -> None:
        self._start(command.utterance_id, command.revision, self._judge(command))

    def preview(self, command: do.Preview) -> None:
        """One at a time: a look that is not urgent is left out while another is being taken."""
        if self._preview is not None and not self._preview.done():
            if not command.urgent:
                return
            self._preview.cancel()
        self._preview = self._group.create_task(self._look(command))

    def drop(self, utterance_id: str, revision: int | None) -> None:
        for (owner, of), tasks in self._running.items():
            if owner == utterance_id and revision in (None, of):
                for task in tasks:
                    task.cancel()
        if revision is None:
            self._drop_preview()

    def _drop_preview(self) -> None:
        if self._preview is not None:
            self._preview.cancel()
            self._preview = None

    def _start(self, utterance_id: str, revision: int, work: Coroutine[None, None, None]) -> None:
        key = (utterance_id, revision)
        task = self._group.create_task(work)
        self._running.setdefault(key, []).append(task)
        task.add_done_callback(lambda done: self._forget(key, done))

    def _forget(self, key: tuple[str, int], task: asyncio.Task[None]) -> None:
        running = self._running.get(key, [])
        running.remove(task)
        if not running:
            self._running.pop(key, None)

    async def _transcribe(self, command: do.Transcribe) -> None:
        ids = (command.utterance_id, command.segment, command.revision)
        pcm = self._recorder.slice(command.start_sample, command.end_sample)
        try:
            result = await self._stages.asr.transcribe(
                pcm,
                language=None if self.language == "auto" else self.language,
                expected=self._expected,
                known=command.known,
            )
        except StageError as error:
            log_event(_log, "recognition_failed", level=logging.WARNING, session=self._session_id, code=error.code)
            self._post(ev.TranscriptionFailed(*ids, error.code, str(error)))
        except Exception as error:
            log_event(_log, "recognition_broke", level=logging.ERROR, error=error, session=self._session_id)
            self._post(ev.TranscriptionFailed(*ids, "internal_error", "Recognition broke; see the server's log."))
        else:
            if result.text:
                self._expected = result.language
            self._post(ev.Transcribed(*ids, result.text, result.language))

    async def _look(self, command: do.Preview) -> None:
        pcm = self._recorder.slice(command.start_sample, command.end_sample)
        try:
            result = await self._stages.asr.transcribe(
                pcm,
                language=None if self.language == "auto" else self.language,
                expected=self._expected,
                known=command.known,
                partial=not command.urgent,
            )
        except StageError:  # too busy for it, or broken, which the transcript of the whole will tell
            return
        except Exception as error:
            log_event(_log, "preview_broke", level=logging.ERROR, error=error, session=self._session_id)
        else:
            ids = (command.utterance_id, command.segment, command.revision)
            self._post(ev.Previewed(*ids, result.text, result.language))

    async def _judge(self, command: do.JudgeTurn) -> None:
        assert self._stages.turn is not None
        pcm = self._recorder.slice(command.start_sample, command.end_sample)
        try:
            completeness = await self._stages.turn.completeness(pcm)
        except Exception as error:  # the longest pause decides then; nothing is lost but time
            log_event(_log, "turn_model_failed", level=logging.WARNING, error=error, session=self._session_id)
        else:
            self._post(ev.TurnJudged(command.utterance_id, command.revision, completeness))
