"""The latest turns of all sessions, kept in memory so that one can be saved and run again (docs/replay.md)."""

from app.telemetry.turns.kept import KeptTurns, SavedTurn
from app.telemetry.turns.tape import StageCall, Tape

__all__ = ["KeptTurns", "SavedTurn", "StageCall", "Tape"]
