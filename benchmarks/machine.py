"""What a result was measured on, so that it can be compared with another."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path

import psutil

_BUSY_LOAD = 0.5
"""Processes that wanted to run during the last minute; more than this makes figures worth little."""


def describe() -> dict[str, str]:
    """Processor, memory, system, and Parley's commit."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{_distribution()}, Linux {platform.release()}"
        if platform.system() == "Linux"
        else platform.platform(),
        "python": platform.python_version(),
        "commit": _commit(),
        "load before": f"{os.getloadavg()[0]:.2f}",
    }


def busy() -> str:
    """A warning if the machine has other things to do; "" if it has not."""
    load = os.getloadavg()[0]
    if load <= _BUSY_LOAD:
        return ""
    return f"the load of the last minute is {load:.1f}: something else is running, and the figures will suffer"


def _processor() -> str:
    try:
        facts = {
            name.strip(): value.strip()
            for name, _, value in (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
        }
    except OSError:
        return platform.processor()
    wanted = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
    features = [name for name in wanted if name in facts.get("flags", "").split()]
    return f"{facts.get('model name', platform.processor())} ({', '.join(features)})"


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
