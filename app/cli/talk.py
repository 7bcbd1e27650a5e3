"""Hold a conversation from sound files or typed lines, through the same sessions as a call.

Each file is one turn, spoken at real time; --text lines follow after the files.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from app.audio import OUTPUT_RATE_HZ, Pcm, read_wav
from app.cli.keys import screen
from app.cli.quiet import only_warnings
from app.cli.saving import check_place, save, save_wav
from app.cli.transcript import printable
from app.config import Settings
from app.dialogue.ports import WireEvent
from app.errors import InvalidRequest
from app.telemetry.log import configure as configure_log
from app.telemetry.stage import StageReport
from app.telemetry.trace import STAGE_NAMES
from app.telemetry.turns.bundle import bundle
from app.telemetry.turns.config import open_settings
from app.transports.files import FileConversation, FileTurn, check_typed
from app.wiring import build

EXAMPLES = """examples:
  python -m app talk question1.wav question2.wav
  python -m app talk question.wav --out reply.wav
  python -m app talk question.wav --save turn.zip && python -m app replay turn.zip
  python -m app talk --text "Why is the sky blue?" --text "Say it shorter." --json
"""
_GAP = OUTPUT_RATE_HZ // 2
"""Silence between two replies in --out."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", type=Path, metavar="WAV", help="what the user says, one file a turn")
    parser.add_argument("--text", action="append", default=[], metavar="LINE", help="a typed turn (repeatable)")
    parser.add_argument("--out", type=Path, metavar="WAV", help="write the replies' sound (48 kHz mono)")
    parser.add_argument(
        "--save", type=Path, metavar="ZIP", help="save the last answered turn, for `python -m app replay`"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per turn on standard output")


def overrides(args: argparse.Namespace) -> Mapping[str, str]:
    return only_warnings(args)


def run(settings: Settings, args: argparse.Namespace) -> int:
    if not args.files and not args.text:
        raise InvalidRequest("There is nothing to say: give WAV files, or --text LINE.")
    check_place("--out", args.out)
    check_place("--save", args.save)
    if args.save and not settings.server.saved_turns_mb:
        raise InvalidRequest("--save: no turns are kept with server.saved_turns_mb = 0; set it to 32, for one.")
    for text in args.text:  # what is wrong is told before the models are loaded
        check_typed(text)
    questions = [read_wav(path) for path in args.files]
    configure_log(settings.runtime.log_level)
    return asyncio.run(_talk(settings, args, questions))


async def _talk(settings: Settings, args: argparse.Namespace, questions: list[Pcm]) -> int:
    quiet = args.json
    sounds: list[Pcm] = []
    answered = True
    replies: list[str] = []

    def on_event(event: WireEvent) -> None:
        if event["type"] == "response.done":
            replies.append(event["response"]["id"])

    async with (
        build(settings, on_report=(lambda report: None) if quiet else _print_report) as parley,
        FileConversation(parley.host, on_event, nothing_heard_s=_patience_s(settings)) as conversation,
    ):
        if settings.assistant.greeting:
            sounds.append(await conversation.greeting())
        inputs = (*questions, *args.text)
        for number, turn_input in enumerate(inputs):
            is_text = isinstance(turn_input, str)
            turn = await (conversation.type(turn_input) if is_text else conversation.speak(turn_input))
            if turn.status == "closed":
                left = f"{len(inputs) - number} of {len(inputs)} turns are left unsaid"
                print(f"parley: the session has ended ({conversation.closed}): {left}.", file=sys.stderr)
                answered = answered and conversation.closed == "goodbye"
                break
            sounds.append(turn.reply_pcm)
            answered = answered and turn.status == "completed"
            _print_json(turn) if quiet else _print_turn(turn)
        if args.save and replies:
            saved = parley.host.turns.find(conversation.session.resume_token, replies[-1])
            save("--save", args.save, await asyncio.to_thread(bundle, saved, open_settings(settings)))
            if not quiet:
                print(f"The last turn is saved in {args.save}.")
        elif args.save:
            print(f"parley: nothing was answered, so there is no turn to save in {args.save}.", file=sys.stderr)
    if args.out:
        save_wav(args.out, _joined(sounds))
        if not quiet:
            print(f"Replies written to {args.out}.")
    return 0 if answered else 1


def _patience_s(settings: Settings) -> float:
    """Longer than a session waits for the rest of a sentence."""
    return max(settings.turn.max_wait_ms / 1000, 2.0) + 1.0


def _joined(sounds: list[Pcm]) -> Pcm:
    gap = np.zeros(_GAP, np.int16)
    parts = [part for sound in sounds for part in (sound, gap)]
    return np.concatenate(parts) if parts else gap


def _print_report(report: StageReport) -> None:
    took = f"({report.load_s + report.warm_up_s:.1f} s, {report.memory_mb:.0f} MiB)"
    print(f"  {report.stage:<5}{report.detail}  {took}", file=screen(), flush=True)


def _print_turn(turn: FileTurn) -> None:
    nothing = "(nothing was heard)" if turn.status == "unanswered" else "(nothing was recognised)"
    print(f"\nYou:    {printable(turn.user) or nothing}")
    if turn.reply or turn.status == "completed":
        print(f"Parley: {printable(turn.reply)}")
    for notice in turn.notices:
        print(f"Parley: {printable(notice)}")
    for error in turn.errors:
        print(f"        {printable(error)}")
    print(f"        {turn.status}, {_seconds(turn):.1f} s of speech")
    if turn.timings_ms:
        print(
            "        "
            + "  ".join(f"{STAGE_NAMES.get(stage, stage)} {ms:.0f} ms" for stage, ms in turn.timings_ms.items())
        )
    if turn.usage:
        print("        " + "  ".join(f"{name} {count}" for name, count in turn.usage.items()))


def _print_json(turn: FileTurn) -> None:
    fields = {
        "user": turn.user,
        "reply": turn.reply,
        "status": turn.status,
        "reply_audio_s": round(_seconds(turn), 3),
        "timings_ms": turn.timings_ms,
        "usage": turn.usage,
        "notices": list(turn.notices),
        "errors": list(turn.errors),
    }
    print(json.dumps(fields, ensure_ascii=False), flush=True)


def _seconds(turn: FileTurn) -> float:
    return len(turn.reply_pcm) / OUTPUT_RATE_HZ
