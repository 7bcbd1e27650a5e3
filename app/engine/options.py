"""What the worker is told about the model it is to load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
