"""How much memory this process holds."""

from __future__ import annotations

import psutil


def resident_mb() -> float:
    """Resident set size of this process, MiB."""
    return float(psutil.Process().memory_info().rss) / 2**20
