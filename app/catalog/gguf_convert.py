"""The child process that turns a GGUF file into a transformers folder.

Run as ``python -m app.catalog.gguf_convert FILE FOLDER`` by ``app.catalog.gguf``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def main(gguf: Path, folder: Path) -> int:
    try:
        with tempfile.TemporaryDirectory() as alone:
            # A config.json or tokenizer.json that happens to lie beside the file would be read in its place.
            link = Path(alone) / "model.gguf"
            link.symlink_to(gguf.resolve())
            _convert(link, folder, gguf.stem)
    except OSError:
        raise  # a full disk must be told from an unfit file
    except Exception as error:
        print(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        return 1
    return 0


def _convert(gguf: Path, folder: Path, name: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.bfloat16,
    )
    # The path of the machine that made the GGUF must not travel on, nor a quantisation that is no more.
    model.config._name_or_path = name
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.generation_config.eos_token_id = _stop_ids(tokenizer, model.generation_config.eos_token_id)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _stop_ids(tokenizer: object, declared: int | list[int] | None) -> list[int]:
    """Every id that ends a reply: what the file declares, the tokenizer's, and the turn marks of known templates."""
    ids: list[int] = list(declared) if isinstance(declared, list) else [] if declared is None else [declared]
    eos = getattr(tokenizer, "eos_token_id", None)
    vocabulary: dict[str, int] = tokenizer.get_vocab()  # type: ignore[attr-defined]
    template = getattr(tokenizer, "chat_template", None) or ""
    marks = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>")
    ids += [eos] if isinstance(eos, int) else []
    ids += [vocabulary[mark] for mark in marks if mark in vocabulary and (mark in template or mark == "<|endoftext|>")]
    return list(dict.fromkeys(ids))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
