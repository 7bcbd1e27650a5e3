"""The shell around the machine: turns sound and messages into events, and commands into work."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np

from app.audio.echo import EchoGuard
from app.audio.frames import OUTPUT_FRAME, Pcm
from app.audio.playout import Playout
from app.audio.utterance import UtteranceRecorder
from app.audio.vad import SpeechStarted
from app.config import Settings
from app.dialogue import commands as do
from app.dialogue import events as ev
from app.dialogue.listening import Listener
from app.dialogue.machine import reduce
from app.dialogue.options import SessionOptions, parse_options
from app.dialogue.ports import EventSink, LastHeard, WireEvent
from app.dialogue.recording import Past, TurnRecorder, recorded
from app.dialogue.setup import budget, limits
from app.dialogue.stages import Stages
from app.dialogue.state import Memory, State
from app.dialogue.thinking import Thinker
from app.dialogue.wire import ClientEvent, Ping, Recording, Update, parse
from app.errors import InvalidRequest, StageError
from app.telemetry.log import log_event
from app.telemetry.turns import KeptTurns

_log = logging.getLogger("parley.session")
_PLAYED_SAMPLES = 3 * OUTPUT_FRAME
"""How often the machine is told of sound that was played, if nothing else happens: every 60 ms."""
_END_TIMEOUT_S = 2.0
"""How long closing waits for the worker to forget the session; it may be dead."""


class Session:
    """One conversation. Transports reach it through a ``Seat``; all methods belong on its event loop.

    Every event goes through ``_post``, which runs the machine and carries out its commands at once
    and in order: between a sample being taken from the playout and the machine knowing of it, nothing
    else can happen.
    """

    def __init__(
        self,
        session_id: str,
        stages: Stages,
        settings: Settings,
        send: EventSink,
        options: SessionOptions = SessionOptions(),  # noqa: B008 - immutable
        *,
        kept: KeptTurns | None = None,
        past: Past = Past(),  # noqa: B008 - immutable
    ) -> None:
        """``kept`` is where its turns can be found afterwards; ``past`` is the conversation that it goes on with."""
        self._id = session_id
        self.resume_token = secrets.token_urlsafe(24)
        self.left_at: float | None = None
        """When the client was lost, on the loop's clock; None while it is there."""
        self._options = options
        self._loop = asyncio.get_running_loop()
        tape = kept.tape(self.resume_token, self._loop.time) if kept is not None else None
        self._turns = None if tape is None else TurnRecorder(tape, lambda: self._options)
        stages = stages if tape is None else recorded(stages, tape)
        self._stages = stages
        self._settings = settings
        self._send = send
        self._echo = EchoGuard() if settings.audio.echo_guard else None
        self._playout = Playout(
            capacity_s=settings.audio.output_buffer_s,
            duck_db=settings.audio.duck_db,
            on_played=self._played,
            on_read=self._said,
        )
        self._listen_afresh = stages.new_voice_detector
        self._voice, self._voice_began = self._listen_afresh(), 0
        self._recorder = UtteranceRecorder(
            pre_roll_ms=settings.vad.pre_roll_ms, max_utterance_s=settings.turn.max_utterance_s
        )
        self._state = State(
            limits=limits(settings, has_turn_model=stages.turn is not None),
            system_prompt=self._system_prompt,
            manual=options.turn_detection == "manual",
            spoken=options.spoken,
            language=stages.phrases.language,
            memory=Memory(budget(settings, stages.llm.context_tokens)),
        )
        self._state = past.taken_up(self._state)
        if self._turns is not None:
            self._turns.settled(self._state)
        self._inbox: deque[ev.Event] = deque()
        self._draining = False
        self._unposted: ev.Played | None = None
        self._posted = 0
        """Samples of the reply, as the machine knows them."""
        self._alarm: asyncio.TimerHandle | None = None
        self._sent = 0
        self._group = asyncio.TaskGroup()
        self._listener = Listener(
            session_id, stages, settings.assistant.language, self._recorder, self._group, self._post
        )
        self._thinker = Thinker(session_id, stages, settings, self._playout, self._group, self._post)
        self._adopt(options)
        self._started = asyncio.Event()
        self._ended = asyncio.Event()
        self._close_reason = ""
        self._runner = self._loop.create_task(self._run(), name=f"session {session_id}")

    # What a seat uses

    @property
    def id(self) -> str:
        return self._id

    @property
    def playout(self) -> Playout:
        return self._playout

    @property
    def state(self) -> State:
        """The conversation as it stands, for reading only."""
        return self._state

    def push_audio(self, pcm: Pcm) -> None:
        if self._state.closed:
            return
        if self._turns is not None:
            self._turns.tape.hear(pcm)
        if self._echo is not None:
            pcm = self._echo.clean(pcm)
        self._recorder.push(pcm)
        for voice in self._voice.push(pcm):
            voice = replace(voice, at_sample=voice.at_sample + self._voice_began)
            if isinstance(voice, SpeechStarted):
                self._recorder.hold(voice.at_sample)
            self._post(voice)

    def _said(self, pcm: Pcm) -> None:
        if self._turns is not None:
            self._turns.tape.say(pcm)
        if self._echo is not None:
            self._echo.played(pcm)

    def receive(self, event: WireEvent) -> None:
        if self._turns is not None:
            self._turns.received(event)
        try:
            self._take(parse(event))
        except InvalidRequest as error:
            fields = {"type": "invalid_request_error", "code": error.code, "message": str(error)}
            self._tell("error", {"error": {**fields, "event_id": event.get("event_id")}})

    def _take(self, event: ClientEvent) -> None:
        match event:
            case Ping():
                self._tell("parley.pong", {"id": event.id})
            case Update():
                self._update(event.session)
            case Recording():
                self._record(event.on)
            case _:
                self._post(event)

    async def started(self) -> None:
        """Return once the session can be talked to."""
        await self._started.wait()

    async def leave(self) -> None:
        """The client was lost; nothing is told until another takes its place."""
        self._send = _nobody
        self.left_at = self._loop.time()
        self._lose()
        if self._state.closed:
            await asyncio.shield(self._runner)

    def take_up(self, send: EventSink, heard: LastHeard | None) -> None:
        """``send`` is told everything from now on, and first what a client must know to go on."""
        if self.left_at is None:
            self._lose()
        self.left_at = None
        self._send = send
        self._tell_created(resumed=True)
        self._post(ev.Returned(heard.reply_id, heard.chars) if heard is not None else ev.Returned())

    def _lose(self) -> None:
        """What was being said ends here; whoever is still speaking when they are back is heard to begin."""
        self._post(ev.Left(self._recorder.position))
        self._recorder.push(np.zeros(self._recorder.pre_roll_samples, np.int16))
        self._voice, self._voice_began = self._listen_afresh(), self._recorder.position

    async def close(self, reason: str) -> None:
        self._post(ev.HungUp(reason))
        await asyncio.shield(self._runner)

    async def wait_closed(self) -> None:
        await asyncio.shield(self._runner)

    # The life of the session

    async def _run(self) -> None:
        try:
            async with self._group:
                self._started.set()
                self._greet()
                await self._ended.wait()
                for task in [*self._tasks()]:
                    task.cancel()
        except BaseExceptionGroup as group:
            log_event(_log, "session_broke", level=logging.ERROR, error=group, session=self._id)
            self._post(ev.HungUp("internal_error"))
        finally:
            self._started.set()
            self._cancel_alarm()
            with contextlib.suppress(StageError, TimeoutError):
                async with asyncio.timeout(_END_TIMEOUT_S):
                    await self._stages.llm.end_session(self._id)
            self._tell("parley.closed", {"reason": self._close_reason})
            if self._turns is not None:
                self._turns.tape.close()

    def _greet(self) -> None:
        self._tell_created(resumed=False)
        self._tell("parley.state", {"state": self._state.phase})
        self._arm()
        if greeting := self._settings.assistant.greeting:
            self._post(ev.GreetingDue(greeting))

    def _tell_created(self, *, resumed: bool) -> None:
        resume = {"token": self.resume_token, "keep_s": self._settings.server.resume_s}
        self._tell("session.created", {"session": {**self._described(), "resume": resume, "resumed": resumed}})

    # What is this session's own

    @property
    def _system_prompt(self) -> str:
        own = self._options.instructions
        return self._settings.assistant.system_prompt if own is None else own

    def _adopt(self, options: SessionOptions) -> None:
        self._listener.language = options.language or self._settings.assistant.language
        self._thinker.manner = replace(self._thinker.manner, voice=options.voice, speed=options.speed)

    def _described(self) -> dict[str, Any]:
        return {"id": self._id, **self._options.described(self._settings, self._stages.tts.default_voice)}

    def _record(self, on: bool) -> None:
        """The recording is made by the client, and only once this has been answered."""
        if on and not self._settings.server.recording:
            raise InvalidRequest("Calls may not be recorded here (server.recording = false).")
        log_event(_log, "recording_by_client", session=self._id, on=on)
        self._tell("parley.recording", {"on": on})

    def _update(self, given: Any) -> None:
        voices, languages = self._stages.tts.voices, self._stages.asr.languages
        self._options = parse_options(given, self._settings, voices, self._options, languages=languages)
        self._adopt(self._options)
        manual = self._options.turn_detection == "manual"
        self._post(ev.Configured(self._system_prompt, manual, self._options.spoken))
        self._tell("session.updated", {"session": self._described()})

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [*self._listener.tasks, *self._thinker.tasks]

    # Events in, commands out

    def _played(self, generation: int, samples: int) -> None:
        """Frames are told together; whatever else happens is preceded by all that was played until then."""
        self._unposted = ev.Played(generation, samples)
        if samples - self._posted >= _PLAYED_SAMPLES or samples <= OUTPUT_FRAME or not self._playout.queued_samples:
            self._post(self._unposted)

    def _post(self, event: ev.Event) -> None:
        if self._unposted is not None:
            self._posted = self._unposted.samples
            if event is not self._unposted:
                self._inbox.append(self._unposted)
            self._unposted = None
        self._inbox.append(event)
        if self._draining:  # a command has led to an event: it waits its turn
            return
        self._draining = True
        try:
            while self._inbox:
                self._state, commands = reduce(self._state, self._inbox.popleft(), self._loop.time())
                for command in commands:
                    self._carry_out(command)
        finally:
            self._draining = False
        if self._state.utterance is None:
            self._recorder.release()
        if self._turns is not None:
            self._turns.settled(self._state)
        self._arm()

    def _carry_out(self, command: do.Command) -> None:
        match command:
            case do.Tell():
                self._tell(command.type, command.fields)
            case do.Transcribe():
                self._listener.transcribe(command)
            case do.Preview():
                self._listener.preview(command)
            case do.JudgeTurn():
                self._listener.judge(command)
            case do.DropRecognition():
                self._listener.drop(command.utterance_id, command.revision)
            case do.Generate():
                self._thinker.generate(command)
            case do.Draft():
                self._thinker.draft(command)
            case do.Summarise():
                self._thinker.summarise(command)
            case do.Say():
                self._thinker.say(command)
            case do.SayPhrase():
                self._thinker.say_phrase(command)
            case do.Aside():
                self._playout.aside(self._stages.phrases.sound(command.phrase))
            case do.CancelReply():
                self._thinker.cancel(command.generation)
            case do.Flush():
                self._playout.flush()
            case do.Hold():
                self._playout.hold()
            case do.Release():
                self._playout.release()
            case do.Rewind():
                self._playout.rewind(command.sample)
                self._posted = command.sample
            case do.Duck():
                self._playout.duck()
            case do.Unduck():
                self._playout.unduck()
            case do.EndSession():
                self._close_reason = command.reason
                self._ended.set()

    def _tell(self, type: str, fields: Any) -> None:
        self._sent += 1
        event = {"type": type, "event_id": f"event_{self._sent}", **fields}
        if self._turns is not None:
            self._turns.told(event, self._state)
        self._send(event)

    def _arm(self) -> None:
        deadline = self._state.next_deadline
        if self._alarm is not None and self._alarm.when() == deadline:
            return
        self._cancel_alarm()
        if deadline is not None:
            self._alarm = self._loop.call_at(deadline, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._post(ev.Tick(self._recorder.position, self._voice.probability >= self._settings.vad.release_threshold))

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


def _nobody(event: WireEvent) -> None:
    """Whom a session tells what happens while its client is lost: who comes back is told what there is."""
