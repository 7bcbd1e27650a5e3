"""Measure Parley: what a conversation feels like, and what a quantization of the language model costs.

See benchmarks/ for the speed of the language model beside other engines.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping
from typing import Any

from app.cli.main import add_settings
from app.config import Settings

EXAMPLES = """examples:
  python -m app bench quality --modes none,int8 --json
  python -m app bench voice --sessions 1,2,4,8
  python -m app bench turns --quick
"""
_KINDS = {
    "quality": "perplexity of each quantization, and its agreement with float32",
    "voice": "voice-to-voice latency of callers over WebRTC, interruptions and all, and what they cost",
    "turns": "whether turns are ended, kept and interrupted as a person would, on a labelled set of conversations",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    for name, summary in _KINDS.items():
        module = _module(name)
        kind = kinds.add_parser(
            name,
            help=summary,
            description=module.__doc__,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(kind)
        add_settings(kind, after="after_")


def overrides(args: argparse.Namespace) -> Mapping[str, Any]:
    return dict(_module(args.what).overrides(args))


def run(settings: Settings, args: argparse.Namespace) -> int:
    return int(_module(args.what).run(settings, args))


def _module(name: str) -> Any:
    return importlib.import_module(f"app.cli.bench.{name}")
