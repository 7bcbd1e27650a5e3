"""Speaking: clauses of a reply become sound."""

from app.tts.base import Synthesizer
from app.tts.clause import Clause

__all__ = ["Clause", "Synthesizer"]
