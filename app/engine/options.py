"""What the worker is told about the model it is to load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.errors import ModelError


@dataclass(frozen=True, slots=True)
class LoadOptions:
    path: Path
    """A folder as transformers writes it, or a .gguf file."""
    device: str = "auto"
    """"auto", "cpu" or "cuda"."""
    dtype: str = "auto"
    """"auto", "bfloat16" or "float32"."""
    kv_cache_mb: int = 256
    context_tokens: int = 4096

    def check(self) -> None:
        """Raises ModelError if there is nothing to load; needs no torch, so it costs nothing to ask first."""
        if not self.path.exists():
            raise ModelError(f"no model at {self.path}: fetch it with `python -m app models pull`")
        if self.path.suffix != ".gguf" and not (self.path / "config.json").is_file():
            raise ModelError(f"{self.path} holds no model: it has no config.json")
