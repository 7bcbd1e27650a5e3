"""Whose the machine was while something was measured on it."""

from __future__ import annotations

import contextlib
import time

import psutil


class Watch:
    """From its making on, the cores that this process and its children kept busy, and those that all others did."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._all_s, self._own_s = _busy_s(), _own_s()

    def cores(self) -> tuple[float, float]:
        """(ours, others'), on average so far."""
        wall_s = max(1e-3, time.monotonic() - self._began_s)
        own_s, all_s = _own_s() - self._own_s, _busy_s() - self._all_s
        return own_s / wall_s, max(0.0, all_s - own_s) / wall_s


def _busy_s() -> float:
    times = psutil.cpu_times()
    # Time as a guest is counted in user time already.
    idle = times.idle + getattr(times, "iowait", 0.0)
    return float(sum(times) - idle - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0))


def _own_s() -> float:
    here = psutil.Process()
    total = 0.0
    for process in (here, *here.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total
