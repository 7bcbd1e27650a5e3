"""What a stage says of itself once it is loaded and warm."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StageReport:
    """One line of the start-up report.

    ``stage`` is "ASR", "LLM", "TTS", "VAD" or "turn"; ``detail`` names backend, model and device;
    ``load_s`` and ``warm_up_s`` are wall seconds; ``memory_mb`` is the resident memory (MiB) that
    loading and warming added to the process that holds the stage.
    """

    stage: str
    detail: str
    load_s: float
    warm_up_s: float
    memory_mb: float
