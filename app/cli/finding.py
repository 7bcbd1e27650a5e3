"""What ``doctor`` says of one thing it has looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """One line; ``remedy`` says what to do about it."""

    verdict: Literal["good", "note", "bad"]
    text: str
    remedy: str = ""
