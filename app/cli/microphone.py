"""``python -m app``: talk at once, on this machine's microphone and speaker."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from app.cli.keys import has_terminal, screen
from app.cli.quiet import only_warnings, quiet_errors
from app.cli.talking import Conversation, Manner, OpenSession
from app.cli.view import PlainView, View
from app.config import Settings
from app.dialogue.ports import ConversationPort, EventSink
from app.errors import ConfigError
from app.telemetry.log import configure as configure_log
from app.telemetry.stage import StageReport
from app.transports.microphone import (
    AmbiguousDevice,
    DeviceError,
    Direction,
    NoDeviceError,
    WakeWord,
    describe_devices,
    find_device,
    reach_sound_system,
    wake_words,
)
from app.transports.microphone.echo import choose_echo_control

HELP = "talk on this machine's microphone and speaker (what plain `python -m app` does)"
EXAMPLES = """examples:
  python -m app                                  talk at once, on the default microphone and speaker
  python -m app --list-devices                   what there is; then:
  python -m app --device "USB headset"
  python -m app --push-to-talk                   space opens the microphone, space sends what was said
  python -m app --wake-word "hey jarvis"         listen only after the word (`--wake-word help` lists them)
  python -m app --text                           type, and hear the answers
  echo "What is the capital of France?" | python -m app --text
  python -m app --server https://host:8080/#token=...   talk to a Parley elsewhere; loads no models

other commands (`python -m app COMMAND --help`):
  python -m app serve                            serve the page
  python -m app talk question.wav --out reply.wav
"""

_END_WITHIN_S = 1.7
"""From Ctrl-C to the end of the program, whatever hangs: a dead sound server can hold a close for ever."""
NO_DEVICE_STATUS = 2
_OURS = frozenset({"audio", "runtime"})
"""Sections of the settings that count here when a server does the rest."""
_SECOND_SCREEN_OFF = b"\x1b[?1049l\x1b[?25h"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The flags that are no settings."""

    server: str = ""
    token: str | None = None
    insecure: bool = False
    voice: str | None = None
    device: str | None = None
    input_device: str | None = None
    output_device: str | None = None
    text: bool = False
    plain: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags; they override config.toml and the environment."""
    device = parser.add_argument_group("sound devices")
    device.add_argument("--device", metavar="NAME|INDEX", help="microphone and speaker: part of the name, or the index")
    device.add_argument("--input-device", metavar="NAME|INDEX", help="the microphone alone (audio.input_device)")
    device.add_argument("--output-device", metavar="NAME|INDEX", help="the speaker alone (audio.output_device)")
    device.add_argument("--list-devices", action="store_true", help="print the sound devices and end")
    way = parser.add_argument_group("ways to talk").add_mutually_exclusive_group()
    way.add_argument(
        "--push-to-talk",
        action="store_true",
        help="space or Enter opens the microphone, and sends; held down, where the terminal tells when keys are let go",
    )
    way.add_argument("--wake-word", metavar="NAME", help="listen only after this word; `help` lists them")
    way.add_argument("--text", action="store_true", help="type instead of speaking; answers are spoken and shown")
    parser.add_argument("--plain", action="store_true", help="plain lines instead of the picture")
    server = parser.add_argument_group("a Parley elsewhere")
    server.add_argument(
        "--server", metavar="URL", help="use a running server, as it prints its address; loads no models"
    )
    server.add_argument("--token", help="its token, unless the URL has it (or set PARLEY_SERVER__TOKEN)")
    server.add_argument("--insecure", action="store_true", help="take any certificate of its https, unchecked")


def overrides(args: argparse.Namespace) -> Mapping[str, Any]:
    """What the flags say, as settings keys."""
    given = {
        "audio.input_device": args.input_device,
        "audio.output_device": args.output_device,
        "audio.wake_word": "" if args.push_to_talk or args.text else args.wake_word,
        "audio.push_to_talk": True if args.push_to_talk else False if args.wake_word or args.text else None,
    }
    return only_warnings(args) | {key: value for key, value in given.items() if value is not None}


def list_devices() -> int:
    """Print the sound devices; the exit status. Needs no settings and no models."""
    try:
        reach_sound_system()
        print(describe_devices())
    except DeviceError as error:
        return _refuse(error)
    return 0


def run(settings: Settings, args: argparse.Namespace | None = None) -> int:
    """Load, talk until Ctrl-C, and return the exit status: 2 without a sound device, 1 if the session broke off.

    Raises ConfigError, ModelError, StageError, ClientError.
    """
    if settings.audio.wake_word == "help":
        print("\n".join(wake_words()))
        return 0
    wanted = _wanted(args)
    in_picture = _can_show_picture() and not wanted.plain
    _check(settings, args, in_picture)
    wake_word = WakeWord(settings.audio.wake_word) if settings.audio.wake_word else None
    # Devices first: that there is no microphone should not be learnt after a minute of loading.
    try:
        settings = _with_devices(settings, wanted)
        silent = _is_silent(settings, wanted)
        manner = Manner(
            push_to_talk=settings.audio.push_to_talk,
            wake_word=wake_word,
            typed=wanted.text,
            silent=silent,
            keys=in_picture or settings.audio.push_to_talk,
        )
        if not wanted.server:
            from app.cli.first_run import fetch_missing

            fetch_missing(settings)
        with quiet_errors() if in_picture else nullcontext():
            configure_log(settings.runtime.log_level)
            return asyncio.run(_until_interrupted(settings, wanted, manner, _view(in_picture)))
    except DeviceError as error:
        return _refuse(error)
    except KeyboardInterrupt:
        return 0


def _wanted(args: argparse.Namespace | None) -> _Wanted:
    if args is None:
        return _Wanted()
    return _Wanted(
        server=args.server or "",
        token=args.token,
        insecure=args.insecure,
        voice=args.voice,
        device=args.device,
        input_device=args.input_device,
        output_device=args.output_device,
        text=args.text,
        plain=args.plain,
    )


def _check(settings: Settings, args: argparse.Namespace | None, in_picture: bool) -> None:
    """Raises ConfigError for wishes that cannot be had together."""
    if settings.audio.push_to_talk and settings.audio.wake_word:
        raise ConfigError("audio.push_to_talk and audio.wake_word: choose one of them.")
    if settings.audio.push_to_talk and not has_terminal():
        raise ConfigError(
            "--push-to-talk reads the space bar and needs a terminal, and standard input is none. "
            "Run it in a terminal, or without --push-to-talk."
        )
    if args is not None:
        _check_devices(args)
        _check_server(args)


def _check_devices(args: argparse.Namespace) -> None:
    if args.device is not None and args.input_device is not None and args.output_device is not None:
        raise ConfigError(
            "--device: --input-device and --output-device have chosen both already; leave one of them out."
        )
    if args.text and args.input_device is not None:
        raise ConfigError("--input-device: with --text nobody listens; leave it out.")


def _check_server(args: argparse.Namespace) -> None:
    if args.server is None:
        for flag, given in (("--token", args.token is not None), ("--insecure", args.insecure)):
            if given:
                raise ConfigError(f"{flag} is for a Parley elsewhere: give its address with --server too.")
        return
    from app.cli.remote import address_of

    address = address_of(args.server, args.token)
    if args.insecure and not address.secure:
        raise ConfigError(f"--insecure: {address.url} shows no certificate that could be checked; leave it out.")
    if args.llm:
        raise ConfigError("--llm: the server chooses its own language model; set llm.model there.")
    for key in (pair.partition("=")[0].strip() for pair in args.set):
        if key.partition(".")[0] not in _OURS:
            raise ConfigError(f"--set {key}: the server has its own settings; set it there.")


def _can_show_picture() -> bool:
    # Not as rich sees it: FORCE_COLOR makes it take a pipe for a terminal.
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return has_terminal() and is_terminal and not Console().is_dumb_terminal


def _view(in_picture: bool) -> View:
    if not in_picture:
        return PlainView()
    from app.cli.screen import ScreenView

    return ScreenView()


def _with_devices(settings: Settings, wanted: _Wanted) -> Settings:
    """``--device`` in each direction that it has and that was not chosen by itself. Raises DeviceError.

    What was given just now is there or refused; a device that config.toml names may be unplugged today.
    """
    chosen_alone: tuple[tuple[Direction, str | None], ...] = (
        ("input", wanted.input_device),
        ("output", wanted.output_device),
    )
    for direction, given in chosen_alone:
        if given:
            reach_sound_system()
            find_device(given, direction, named_by=f"--{direction}-device")
    if wanted.device is None:
        return settings
    reach_sound_system()
    found: dict[str, str] = {}
    error: DeviceError | None = None
    for direction, _ in chosen_alone:
        try:
            find_device(wanted.device, direction, named_by="--device")
        except AmbiguousDevice:
            raise
        except DeviceError as missing:
            error = missing
        else:
            found[f"{direction}_device"] = wanted.device
    if not found and error is not None:
        raise error
    chosen = {key: value for key, value in found.items() if not getattr(settings.audio, key)}
    return settings.model_copy(update={"audio": settings.audio.model_copy(update=chosen)})


def _is_silent(settings: Settings, wanted: _Wanted) -> bool:
    """Whether answers can only be shown. Raises DeviceError where sound is needed and missing."""
    if not wanted.text:
        reach_sound_system()
        find_device("", "input")
        find_device("", "output")
        return False
    try:
        reach_sound_system()
        find_device("", "output")
    except NoDeviceError:
        _print("There is no speaker: answers are shown only.")
        return True
    except DeviceError as error:
        _print(f"{error} Until then answers are shown only.")
        return True
    return False


def _options(wanted: _Wanted, manner: Manner) -> dict[str, Any]:
    """The session object (docs/events.md) for this way to talk."""
    audio: dict[str, Any] = {}
    if manner.push_to_talk:
        audio["input"] = {"turn_detection": None}
    if wanted.voice and wanted.server:
        audio["output"] = {"voice": wanted.voice}
    options: dict[str, Any] = {"audio": audio} if audio else {}
    return options | ({"output_modalities": ["text"]} if manner.silent else {})


@asynccontextmanager
async def _sessions(settings: Settings, wanted: _Wanted, manner: Manner) -> AsyncIterator[OpenSession]:
    """Where sessions are opened: on a server, or here with all models loaded."""
    options = _options(wanted, manner)
    if wanted.server:
        from app.cli.remote import address_of, sessions_on

        address = address_of(wanted.server, wanted.token)
        _print(f"Talking to {address.url}")
        open_there = await sessions_on(address, options, insecure=wanted.insecure, say=_print)
        if manner.wake_word is not None:  # a wrong token should not be learnt from the first word, an hour later
            await (await open_there(lambda event: None)).close("looked")
        yield open_there
        return
    unpacks = (
        " (a .gguf file is unpacked first, once, for a minute or more)" if settings.llm.model.endswith(".gguf") else ""
    )
    _print(f"Loading the models{unpacks}…")
    # Here, because the stages' packages take seconds to import, and without a device nobody needs them; not on the
    # loop, because Ctrl-C would wait for them.
    await asyncio.to_thread(importlib.import_module, "app.wiring")
    from app.wiring import build

    async with build(for_one_microphone(settings, manner), on_report=_report) as parley:

        async def open_session(send: EventSink) -> ConversationPort:
            return await parley.host.open(send, transport="microphone", options=parley.host.options(options))

        yield open_session


def for_one_microphone(settings: Settings, manner: Manner) -> Settings:
    """One canceller, not two, and nobody is asked whether they are still there who must press a key to say so.

    The one at the sound card is the better: it sees what was really played, when, and hears the room all the time.
    Behind it the session's own would find nothing to learn from, and mute the user until it believes that.
    """
    echo_guard = settings.audio.echo_guard and not choose_echo_control(settings.audio.echo_cancellation).cancels
    assistant = settings.assistant
    if manner.push_to_talk or manner.typed:
        assistant = assistant.model_copy(update={"away_prompt_s": 0.0})
    audio = settings.audio.model_copy(update={"echo_guard": echo_guard})
    return settings.model_copy(update={"audio": audio, "assistant": assistant})


async def _until_interrupted(settings: Settings, wanted: _Wanted, manner: Manner, view: View) -> int:
    main = asyncio.current_task()
    assert main is not None
    interrupted = False
    conversation: Conversation | None = None

    def end_now() -> None:
        if conversation is not None:
            conversation.restore_terminal()
        if not isinstance(view, PlainView):
            with suppress(OSError):
                os.write(1, _SECOND_SCREEN_OFF)
        _end_now()

    def interrupt() -> None:
        nonlocal interrupted
        if interrupted:
            end_now()
        interrupted = True
        begin_the_end()
        main.cancel()

    def begin_the_end() -> None:
        timer = threading.Timer(_END_WITHIN_S, end_now)
        timer.daemon = True
        timer.start()

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        with suppress(NotImplementedError, AttributeError):  # Windows: KeyboardInterrupt ends it there
            number = getattr(signal, name)
            if name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup
            asyncio.get_running_loop().add_signal_handler(number, interrupt)
    try:
        async with _sessions(settings, wanted, manner) as open_session:
            conversation = Conversation(open_session, settings.audio, view, manner)
            broke = await conversation.run()
            begin_the_end()
    except asyncio.CancelledError:
        if not interrupted:
            raise
        _print("Goodbye.")
        return 0
    return 1 if broke else 0


def _report(report: StageReport) -> None:
    _print(
        f"  {report.stage:<5}{report.detail}  ({report.load_s + report.warm_up_s:.1f} s, {report.memory_mb:.0f} MiB)"
    )


def _refuse(error: DeviceError) -> int:
    print(error, file=sys.stderr, flush=True)
    return NO_DEVICE_STATUS


def _print(line: str) -> None:
    print(line, file=screen(), flush=True)


def _end_now() -> None:
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(0)
