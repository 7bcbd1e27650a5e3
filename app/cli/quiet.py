"""Keeps what libraries and logs write to the terminal away from the picture, and shows it afterwards."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_MOST = 64 * 1024
"""Bytes shown at the end; of more, only the last."""

_NOISE = b"ALSA lib"
"""It complains of each late block, which is counted anyway."""


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
