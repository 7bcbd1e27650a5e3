"""The language model worker: continuous batching with keys and values kept per session.

``Engine`` is the step loop, free of torch; ``worker`` is the process around it. The modules that
hold torch (loader, runner, attention, sampler) are imported only where a model is loaded.
"""

from app.engine.engine import Engine
from app.engine.options import LoadOptions

__all__ = ["Engine", "LoadOptions"]
