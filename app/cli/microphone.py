"""``python -m app``: talk at once, on this machine's microphone and speaker."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress

from app.cli.conversation_lines import ConversationLines
from app.config import Settings
from app.dialogue.ports import SessionHost
from app.telemetry.log import configure as configure_log
from app.telemetry.stage import StageReport
from app.transports.microphone import DeviceError, MicrophoneTransport, describe_devices, find_device

HELP = "talk on this machine's microphone and speaker (what plain `python -m app` does)"

_END_WITHIN_S = 1.9
"""From Ctrl-C to the end of the program, whatever hangs: a dead sound server can hold a close for ever."""
NO_DEVICE_STATUS = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags; they override config.toml and the environment."""
    parser.add_argument("--input-device", help="microphone: part of its name, or its index (audio.input_device)")
    parser.add_argument("--output-device", help="speaker: part of its name, or its index (audio.output_device)")
    parser.add_argument("--list-devices", action="store_true", help="print the sound devices and end")


def overrides(args: argparse.Namespace) -> Mapping[str, str]:
    """What the flags say, as settings keys."""
    given = {"audio.input_device": args.input_device, "audio.output_device": args.output_device}
    return {key: value for key, value in given.items() if value is not None}


def list_devices() -> int:
    """Print the sound devices; the exit status. Needs no settings and no models."""
    try:
        print(describe_devices())
    except DeviceError as error:
        return _refuse(error)
    return 0


def run(settings: Settings) -> int:
    """Load, talk until Ctrl-C, and return the exit status: 2 without a sound device.

    Raises ConfigError, ModelError, StageError.
    """
    configure_log(settings.runtime.log_level)
    # Devices first: that there is no microphone should not be learnt after a minute of loading.
    try:
        find_device("", "input")
        find_device("", "output")
        return asyncio.run(_until_interrupted(settings))
    except DeviceError as error:
        return _refuse(error)
    except KeyboardInterrupt:
        return 0


async def talk(host: SessionHost, settings: Settings) -> None:
    """One session on the sound card, until either side ends it. Raises DeviceError if it cannot begin."""
    lines = ConversationLines()
    session = await host.open(lambda event: _print(*lines.feed(event)), transport="microphone")
    try:
        await MicrophoneTransport(settings.audio, say=_print).run(session)
    finally:
        await session.close("microphone closed")


async def _until_interrupted(settings: Settings) -> int:
    # Here, because the stages' packages take seconds to import, and without a device nobody needs them.
    from app.wiring import build

    main = asyncio.current_task()
    assert main is not None
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        if interrupted:
            _end_now()
        interrupted = True
        timer = threading.Timer(_END_WITHIN_S, _end_now)
        timer.daemon = True
        timer.start()
        main.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows: KeyboardInterrupt ends it there
            asyncio.get_running_loop().add_signal_handler(number, interrupt)
    try:
        _print("Loading the models…")
        async with build(settings, on_report=_report) as parley:
            _print("Speak whenever you like; Ctrl-C ends it.")
            await talk(parley.host, settings)
    except asyncio.CancelledError:
        if not interrupted:
            raise
        _print("Goodbye.")
    return 0


def _report(report: StageReport) -> None:
    _print(
        f"  {report.stage:<5}{report.detail}  ({report.load_s + report.warm_up_s:.1f} s, {report.memory_mb:.0f} MiB)"
    )


def _refuse(error: DeviceError) -> int:
    print(error, file=sys.stderr, flush=True)
    return NO_DEVICE_STATUS


def _print(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)


def _end_now() -> None:
    sys.stdout.flush()
    os._exit(0)
