"""The command line: global flags, one file per command, errors as one line each.

A command module offers ``HELP``, ``add_arguments(parser)``, ``overrides(args)`` (settings keys that its
flags set) and ``run``, which takes the settings, or the settings and the arguments. It is imported
only when it is the one that was asked for, so that ``--help`` does not wait for torch.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import inspect
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app import __version__
from app.cli.interrupts import leave_to_command
from app.config import load_settings
from app.errors import ConfigError, ParleyError

_COMMANDS = {
    "microphone": "talk on this machine's microphone and speaker (the default command)",
    "serve": "serve the page, its calls and the OpenAI-compatible API",
    "talk": "hold a conversation from sound files or typed lines",
    "models": "list, fetch and check models",
    "replay": "run a saved turn again and compare",
    "bench": "measure turn-taking, voice-to-voice latency, or a quantization",
    "doctor": "check this machine and say how to mend what is wrong",
    "config": "show the settings as they are in force",
}

_DEFAULT = "microphone"
_TAKES_VALUE = frozenset({"--config", "--set", "--llm", "--voice", "--log-level"})
"""Flags of all commands that are followed by something that may look like a command's name..."""
_DEFAULT_TAKES_VALUE = frozenset(
    {"--device", "--input-device", "--output-device", "--wake-word", "--server", "--token"}
)
"""...and those of the default command."""
FLAGS_OF_OTHERS = {
    **dict.fromkeys(("--host", "--port", "--https", "--api-only"), "serve"),
    **dict.fromkeys(("--out", "--save", "--json"), "talk"),
    "--stages": "replay",
}
"""Flags that people look for in another command than theirs."""

_EXAMPLES = """examples:
  python -m app                                  talk at once, on the default microphone and speaker
  python -m app serve --port 8080                serve the page
  python -m app talk question.wav --out reply.wav
  python -m app serve --llm ./my-model           another language model: catalogue name, folder, .gguf, hub id
  python -m app talk --text "Hello" --set llm.max_tokens=80
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status (2 for an error of ours, 130 after Ctrl-C)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name, at = _command_of(arguments)
    if name == _DEFAULT:  # with its name or without, its flags stand alone
        arguments[at : at + 1] = [word for word in arguments[at : at + 1] if word != _DEFAULT]
    elif wrong := [flag for flag in arguments[:at] if flag in _DEFAULT_TAKES_VALUE]:
        print(f"python -m app: error: {wrong[0]} is no flag of {name} (it is one of {_DEFAULT})", file=sys.stderr)
        return 2
    try:
        return _run(name, arguments)
    except ModuleNotFoundError as error:
        if (error.name or "app").startswith("app"):
            raise
        print(f"parley: the package {error.name} is missing. Run `make venv`, then .venv/bin/python.", file=sys.stderr)
        return 2
    except ParleyError as error:
        from app.cli.transcript import printable  # a server may have worded it

        print("parley:", "\n".join(map(printable, str(error).splitlines())), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(name: str, arguments: list[str]) -> int:
    module = importlib.import_module(f"app.cli.{name}")
    args = _joined(_parsed(name, module, arguments))
    if getattr(args, "list_devices", False):
        return int(module.list_devices())
    settings = load_settings(args.config, overrides=_global_overrides(args) | dict(module.overrides(args)))
    leave_to_command()
    takes_arguments = len(inspect.signature(module.run).parameters) > 1
    return int(module.run(settings, args) if takes_arguments else module.run(settings))


def _parsed(name: str, module: Any, arguments: list[str]) -> argparse.Namespace:
    """Ends the program, with the usage of the command that was meant, where that cannot be followed."""
    parser, command = _parser(name, module)
    at = _command_of(arguments)[1]
    stray = arguments[at] if name == _DEFAULT and at < len(arguments) else None
    # Up to a word that is no command: what is wrong before it is told first, as the word may belong to it.
    args, unknown = parser.parse_known_args(arguments[:at] if stray is not None else arguments)
    if unknown:
        command.error(f"unrecognized arguments: {' '.join(unknown)}{_hint(unknown[0].partition('=')[0], command)}")
    if stray in _COMMANDS:
        parser.error(f"there are two commands: {_DEFAULT} and {stray}; give one of them")
    if stray is not None:
        near = difflib.get_close_matches(stray.lower(), _COMMANDS, n=1)
        parser.error(f"there is no command {stray!r}; " + (f"did you mean {near[0]!r}?" if near else "see --help"))
    return args


def _hint(flag: str, command: argparse.ArgumentParser) -> str:
    """Which flag was meant, or whose it is."""
    if (owner := FLAGS_OF_OTHERS.get(flag)) and not command.prog.endswith(f" {owner}"):
        return f" ({flag} belongs to {owner}: python -m app {owner} {flag} ...)"
    near = difflib.get_close_matches(flag, re.findall(r"--[a-z][a-z-]+", command.format_help()), n=1, cutoff=0.7)
    return f" (did you mean {near[0]}?)" if near else ""


def _command_of(arguments: Sequence[str]) -> tuple[str, int]:
    """The command among the arguments and its place, or that of the first word which is none; plain ``python -m app``
    is the microphone."""
    skip = False
    for place, argument in enumerate(arguments):
        if skip:
            skip = False
        elif argument in _TAKES_VALUE or argument in _DEFAULT_TAKES_VALUE:
            skip = True
        elif argument in _COMMANDS:
            return argument, place
        elif not argument.startswith("-"):
            return _DEFAULT, place
    return _DEFAULT, len(arguments)


def _parser(chosen: str, module: Any) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """The whole, and the part of the command."""
    parser = part = argparse.ArgumentParser(
        prog="python -m app",
        description="Parley: a self-hosted, real-time voice assistant.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"parley {__version__}")
    add_settings(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, summary in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=summary,
            description=(module.__doc__ or summary).replace("``", "`") if name == chosen else summary,
            epilog=getattr(module, "EXAMPLES", None) if name == chosen else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == chosen:
            module.add_arguments(command)
            add_settings(command, after="after_")
            part = command
    if chosen == _DEFAULT:
        module.add_arguments(parser)
        part = parser
    return parser, part


def add_settings(parser: argparse.ArgumentParser, after: str = "") -> None:
    """The flags of every command. ``after`` is put before their names, because what is given after the command must
    not make argparse forget what was given before it."""
    unset = argparse.SUPPRESS if after else None
    group = parser.add_argument_group("settings, before or after the command")
    group.add_argument(
        "--config",
        dest=f"{after}config",
        type=Path,
        metavar="FILE",
        default=unset,
        help="settings file (default: config.toml)",
    )
    group.add_argument(
        "--set",
        dest=f"{after}set",
        action="append",
        default=unset or [],
        metavar="KEY=VALUE",
        help="""override a setting, e.g. llm.max_tokens=80; lists as asr.languages=en,de or 'asr.languages=["en","de"]'""",
    )
    group.add_argument("--llm", dest=f"{after}llm", metavar="MODEL", default=unset, help="language model (llm.model)")
    group.add_argument("--voice", dest=f"{after}voice", metavar="NAME", default=unset, help="voice (tts.voice)")
    group.add_argument(
        "--log-level",
        dest=f"{after}log_level",
        choices=("debug", "info", "warning", "error"),
        default=unset,
        help="runtime.log_level",
    )


def _joined(args: argparse.Namespace) -> argparse.Namespace:
    """With what was given after the command in its place: it wins, and --set adds up."""
    for name in ("config", "llm", "voice", "log_level"):
        later = getattr(args, f"after_{name}", None)
        if later is not None:
            setattr(args, name, later)
    args.set = [*args.set, *getattr(args, "after_set", [])]
    return args


def _global_overrides(args: argparse.Namespace) -> dict[str, Any]:
    given = {"llm.model": args.llm, "tts.voice": args.voice, "runtime.log_level": args.log_level}
    result: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    for pair in args.set:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"--set {pair!r} must be KEY=VALUE, like llm.max_tokens=80.")
        result[key.strip()] = value
    return result
