"""A GGUF file as a transformers folder in bfloat16: packed weights take 15 s to unpack, at every start.

Run as ``python -m app.catalog.convert SOURCE.gguf TARGET_FOLDER``: in a process of its own, so that the
gigabytes torch needs for it are given back.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from app.errors import ModelError


def convert_gguf(source: Path, target: Path) -> None:
    """Write weights, configuration, tokenizer and chat template of ``source`` to ``target``. Raises ModelError."""
    command = [sys.executable, "-m", "app.catalog.convert", str(source.resolve()), str(target.resolve())]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        reason = lines[-1] if lines else f"exit status {done.returncode}"
        raise ModelError(f"{source.name} cannot be converted: {reason}")


def _main(source: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, GenerationConfig

    folder, name = str(source.parent), source.name
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    # Defaults for sampling belong to whoever asks for a reply; only the end of text is the model's.
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, bos_token_id=tokenizer.bos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.to(torch.bfloat16).save_pretrained(target)
    tokenizer.save_pretrained(target)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
