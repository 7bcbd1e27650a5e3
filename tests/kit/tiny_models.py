"""Random checkpoints of a few thousand weights, saved as transformers saves real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast

from tests.kit.architectures import tiny_model
from tests.kit.engine_world import CHAT_TEMPLATE, byte_tokenizer


def save_tiny(folder: Path, model_type: str, *, template: str = CHAT_TEMPLATE, **changes: Any) -> Path:
    """A checkpoint of this architecture with a tokenizer of one token for each byte."""
    tiny_model(model_type, **changes).save_pretrained(folder)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_tokenizer(), bos_token="<|im_start|>", eos_token="<|im_end|>"
    )
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return folder
