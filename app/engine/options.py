"""What the worker is told about the model it is to load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from app.errors import ModelError

Quantization: TypeAlias = Literal["none", "bf16", "int8"]
RunnerName: TypeAlias = Literal["auto", "native", "lean", "packed", "single"]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    path: Path
    """A folder as transformers writes it."""
    device: str = "auto"
    """"auto", "cpu" or "cuda"."""
    quantization: Quantization = "bf16"
    """"none" computes in float32, "int8" keeps the products' weights in 8 bits."""
    runner: RunnerName = "auto"
    """"auto" takes the first of the others that is right for the model."""
    threads: int = 2
    """CPU threads of the model's products."""
    kv_cache_mb: int = 256
    context_tokens: int = 4096

    def check(self) -> None:
        """Raises ModelError if there is nothing to load; needs no torch, so it costs nothing to ask first."""
        if not self.path.exists():
            raise ModelError(f"no model at {self.path}: fetch it with `python -m app models pull`")
        if self.path.is_file():
            raise ModelError(
                f"{self.path} is a file: a .gguf is converted into a folder first, by naming it as llm.model or through "
                "app.catalog.model_path"
            )
        if not (self.path / "config.json").is_file():
            raise ModelError(f"{self.path} holds no model: it has no config.json")
