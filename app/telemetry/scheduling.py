"""Who goes first where threads compete: the event loop, always."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

_SWITCH_S = 0.0005
"""How long a thread may keep the interpreter from another that wants it. With Python's own 5 ms every system call
of the event loop, which lets go of the interpreter, costs it that much while a voice is being computed."""
_BACKGROUND_NICE = 10


def favour_the_loop() -> None:
    """Call once, in the process of the event loop."""
    sys.setswitchinterval(_SWITCH_S)


def step_back() -> None:
    """Let the event loop go before the calling thread, and before all threads that it starts from now on.

    For threads that compute for long; where the system does not give threads a niceness of their own, nothing happens.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _BACKGROUND_NICE)


def be_nice(niceness: int) -> None:
    """Let other processes go before the calling one: 0 (not at all) to 19. Below 0, which takes privileges, it goes first.

    Linux desktops and many servers share the processor among sessions of processes before they look at niceness
    (sched(7), "The autogroup feature"), so a process that leads a session has to lower that of its session too.
    """
    if niceness:
        with contextlib.suppress(OSError):
            os.nice(niceness)
        with contextlib.suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(niceness), "ascii")
