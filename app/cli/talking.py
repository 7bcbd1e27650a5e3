"""One conversation of ``python -m app``: a session, the sound card, the keyboard and the view, held together."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from app.cli.keys import Key, Keys, somebody_types
from app.cli.transcript import printable
from app.cli.view import View
from app.config.settings import AudioSettings
from app.dialogue.ports import ConversationPort, EventSink, WireEvent
from app.errors import InvalidRequest
from app.transports.files import check_typed
from app.transports.microphone import MicrophoneTransport, SoundPort, Switch, WakeWord, Waking

OpenSession: TypeAlias = Callable[[EventSink], Awaitable[ConversationPort]]
"""Starts a session, here or on a server."""
_LAST_SOUND_S = 0.5
"""What has left the session is still on its way through network and card."""
_LINES_AHEAD = 2
"""Lines of standard input that are read before they are asked."""
_GOOD_ENDS = frozenset({"asleep", "microphone closed", "hung_up", "goodbye"})


@dataclass(frozen=True, slots=True)
class Manner:
    """How the user talks. Without any of them the microphone is simply open."""

    push_to_talk: bool = False
    wake_word: WakeWord | None = None
    typed: bool = False
    silent: bool = False
    """There is no speaker: replies are shown only."""
    keys: bool = False
    """Read keys one by one; else lines, where text is typed."""


class _Line:
    """Whether the line that was typed last has been answered. What was said before it, a greeting for one, may end
    later: only a reply that begins after the session took the line is its answer."""

    def __init__(self) -> None:
        self.answered = asyncio.Event()
        self.answered.set()
        self._taken = False
        self._earlier: set[str] = set()

    def asked(self) -> None:
        self.answered.clear()
        self._taken = False

    def feed(self, event: WireEvent) -> None:
        match event["type"]:
            case "conversation.item.input_audio_transcription.completed":
                self._taken = True
            case "response.created" if not self._taken:
                self._earlier.add(event["response"]["id"])
            case "response.done" if self._taken and event["response"]["id"] not in self._earlier:
                self.answered.set()
            case "error" | "parley.closed":
                self.answered.set()


class Conversation:
    """Use once. All of it belongs on one event loop."""

    def __init__(self, open_session: OpenSession, audio: AudioSettings, view: View, manner: Manner) -> None:
        self._open_session = open_session
        self._audio = audio
        self._view = view
        self._manner = manner
        self._session: ConversationPort | None = None
        self._switch: Switch | None = None
        self._waking: Waking | None = None
        self._keys: Keys | None = None
        self._state = "listening"
        self._typed = ""
        self._line = _Line()
        self._broke = False
        self._silence: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> bool:
        """Until the user, the session or a cancellation ends it; whether the session broke off.

        Raises DeviceError and what opening a session raises.
        """
        with ExitStack() as stack:
            if self._manner.wake_word is None:
                self._session = await self._open_session(self._event)
            try:
                stack.enter_context(self._view)
                if self._manner.keys:
                    self._keys = Keys(self._key, releases=self._manner.push_to_talk)
                    self._keys.on_releases(self._hint)
                    stack.enter_context(self._keys)
                self._hint()
                await self._talk()
            finally:
                await self._end()
        return self._broke

    def restore_terminal(self) -> None:
        """For an end without ceremony."""
        if self._keys is not None:
            self._keys.restore()

    async def _talk(self) -> None:
        work = [asyncio.ensure_future(self._carry_sound())]
        if self._manner.typed and not self._manner.keys:
            work.append(asyncio.ensure_future(self._read_lines()))
        try:
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _carry_sound(self) -> None:
        port = self._port()
        if self._manner.silent:
            await self._play_nowhere(port)
            return
        transport = MicrophoneTransport(self._audio, say=self._view.say, listens=not self._manner.typed)
        self._view.watch_levels(lambda: (transport.heard.db, transport.spoken.db))
        await transport.run(port)

    def _port(self) -> SoundPort:
        if self._manner.wake_word is not None:
            self._waking = Waking(
                self._manner.wake_word,
                self._wake_up,
                on_change=self._woken,
                on_error=lambda e: self._view.say(printable(str(e))),
            )
            self._woken(False)
            return self._waking
        assert self._session is not None
        if self._manner.push_to_talk:
            self._switch = Switch(self._session, is_open=False, on_open=self._interrupt, on_sent=self._commit)
        elif not self._manner.typed:
            self._switch = Switch(self._session, is_open=True)
        return self._switch or self._session

    async def _play_nowhere(self, port: SoundPort) -> None:
        """Parley's own lines are spoken even where replies are written; their time passes here as on a speaker."""
        closed = asyncio.ensure_future(port.wait_closed())
        try:
            while not closed.done():
                port.pull_audio(960)
                await asyncio.wait({closed}, timeout=0.02)
        finally:
            closed.cancel()

    async def _end(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
        for task in self._tasks:
            task.cancel()
        if self._session is not None:
            await self._session.close("microphone closed")
        if self._waking is not None:
            await self._waking.close()

    # The session

    def _event(self, event: WireEvent) -> None:
        match event["type"]:
            case "parley.state":
                self._state = event["state"]
                self._watch_silence()
            case "parley.closed":
                self._broke = event["reason"] not in _GOOD_ENDS
        self._line.feed(event)
        self._view.event(printable(event))

    def _interrupt(self) -> None:
        if self._session is not None and self._state in ("hearing", "speaking", "thinking"):
            self._session.receive({"type": "response.cancel"})

    def _commit(self) -> None:
        if self._session is not None:
            self._session.receive({"type": "input_audio_buffer.commit"})
        self._hint()

    def _ask(self, text: str) -> None:
        if self._session is None:
            return
        try:
            check_typed(text)
        except InvalidRequest as error:
            self._view.say(str(error))
            return
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        self._line.asked()
        self._session.receive({"type": "conversation.item.create", "item": item})
        answer: dict[str, Any] = {"type": "response.create"}
        if self._manner.silent:
            answer["response"] = {"output_modalities": ["text"]}
        self._session.receive(answer)

    # The wake word

    async def _wake_up(self) -> SoundPort:
        self._session = await self._open_session(self._event)
        return self._session

    def _woken(self, awake: bool) -> None:
        if not awake:
            self._session = None
            self._state = "asleep"
            self._watch_silence()
            self._view.event({"type": "parley.state", "state": "asleep"})
        self._hint()

    def _watch_silence(self) -> None:
        """A session that was woken sleeps again after a while in which nobody spoke."""
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
        if self._manner.wake_word is not None and self._state == "listening":
            self._silence = asyncio.get_running_loop().call_later(self._audio.wake_silence_s, self._fall_asleep)

    def _fall_asleep(self) -> None:
        if self._session is not None:
            task = asyncio.get_running_loop().create_task(self._session.close("asleep"))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    # The keyboard

    def _key(self, key: Key) -> None:
        if key.name in ("interrupt", "end") and key.action == "press":
            signal.raise_signal(signal.SIGINT)
        elif self._manner.typed:
            self._type(key)
        elif key.name in ("space", "enter"):
            self._speak_key(key)
        elif key.action != "press":
            return
        elif key.name == "escape":
            self._interrupt()
        elif key.name in ("q", "Q"):
            signal.raise_signal(signal.SIGINT)  # one way to end, with its deadline

    def _speak_key(self, key: Key) -> None:
        if self._waking is not None:
            if key.action == "press":
                self._waking.wake()
        elif self._switch is None or key.action == "repeat":
            return
        elif self._manner.push_to_talk and self._keys is not None and self._keys.reports_releases:
            if key.action == "press":
                self._switch.press()
            else:
                self._switch.release()
        elif key.action == "press":
            self._switch.toggle()
        self._hint()

    def _type(self, key: Key) -> None:
        if key.action == "release":
            return
        if key.name == "enter":
            text, self._typed = self._typed.strip(), ""
            if text:
                self._ask(text)
        elif key.name == "backspace":
            self._typed = self._typed[:-1]
        elif key.name == "clear":
            self._typed = ""
        elif key.name == "escape":
            self._interrupt()
        else:
            self._typed += key.character
        self._view.typing(self._typed)

    async def _read_lines(self) -> None:
        """Lines of standard input, until its end; where nobody types them, each waits for the answer to the last."""
        lines: asyncio.Queue[str] = asyncio.Queue()
        room = threading.Semaphore(_LINES_AHEAD)
        loop = asyncio.get_running_loop()

        def read() -> None:
            # A daemon: nothing can end a read of a terminal that nobody writes to.
            with suppress(RuntimeError):  # the loop is closed
                while room.acquire():
                    line = _next_line()
                    loop.call_soon_threadsafe(lines.put_nowait, line)
                    if not line:
                        return

        threading.Thread(target=read, name="parley-lines", daemon=True).start()
        while line := await lines.get():
            room.release()
            if line.strip():
                self._ask(line.strip())
                if not somebody_types():
                    await self._line.answered.wait()
        if not self._manner.silent:
            await asyncio.sleep(_LAST_SOUND_S)

    # What the keys do now

    def _hint(self) -> None:
        if self._manner.typed and not somebody_types():
            return
        self._view.hint(self._hint_text())
        if self._manner.typed:
            self._view.typing(self._typed)

    def _hint_text(self) -> str:
        end = "q or Ctrl-C ends" if self._manner.keys else "Ctrl-C ends"
        if self._manner.typed:
            stop = "Esc stops the reply · Ctrl-C ends" if self._manner.keys else "Ctrl-C ends"
            return f"Type, Enter sends · {stop}"
        if self._manner.wake_word is not None:
            word = self._manner.wake_word.word
            if self._waking is not None and self._waking.awake:
                return (
                    f"Speak · silence ends the conversation · Esc stops the reply · {end}"
                    if self._manner.keys
                    else f"Speak · {end}"
                )
            return f'Say "{word}"{" or press space" if self._manner.keys else ""} · {end}'
        if self._manner.push_to_talk:
            if self._keys is not None and self._keys.reports_releases:
                return f"Hold space to speak · Esc stops the reply · {end}"
            if self._switch is not None and self._switch.held:
                return f"SPEAK NOW · space or Enter sends · {end}"
            return f"Space or Enter opens the microphone · Esc stops the reply · {end}"
        if not self._manner.keys:
            return f"Speak whenever you like · {end}"
        if self._switch is not None and not self._switch.held:
            return f"MUTED · space unmutes · {end}"
        return f"Speak whenever you like · space mutes · Esc stops the reply · {end}"


def _next_line() -> str:
    """The next line of standard input with its end, whatever bytes it holds; empty when there is no more."""
    try:
        return "" if sys.stdin is None else sys.stdin.buffer.readline().decode("utf-8", "replace")
    except (OSError, ValueError):  # the terminal has gone, or the file is closed
        return ""
