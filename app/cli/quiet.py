"""Keeps logs out of a conversation, and what is written to the terminal all the same away from the picture, until afterwards."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_LEVEL = "runtime.log_level"
_MOST = 64 * 1024
"""Bytes shown at the end; of more, only the last."""

_NOISE = b"ALSA lib"
"""It complains of each late block, which is counted anyway."""


def only_warnings(args: argparse.Namespace) -> dict[str, str]:
    """The setting for a command that people read, unless they have asked for more just now."""
    asked = args.log_level or any(pair.partition("=")[0].strip() == _LEVEL for pair in args.set)
    return {} if asked or f"PARLEY_{_LEVEL.upper().replace('.', '__')}" in os.environ else {_LEVEL: "warning"}


@contextmanager
def quiet_errors() -> Iterator[None]:
    """Standard error goes to a file while the block runs, if it is a terminal, whoever writes to it: C libraries and
    child processes too. On leaving it is written out. Elsewhere it goes where it was sent."""
    if not sys.stderr.isatty():
        yield
        return
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            with suppress(OSError):
                sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)
            size = kept.seek(0, os.SEEK_END)
            kept.seek(max(0, size - _MOST))
            with suppress(OSError):
                os.write(2, b"".join(line for line in kept if not line.startswith(_NOISE)))
