"""Virtual time for tests; a saved turn is run again in it too."""

from __future__ import annotations

from app.replay.virtual_time import VirtualTimeLoop, run_virtual

__all__ = ["VirtualTimeLoop", "run_virtual"]
