"""Random checkpoints of a few thousand weights, saved as transformers saves real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from tests.kit.engine_world import CHAT_TEMPLATE, byte_tokenizer

_COMMON: dict[str, Any] = {
    "vocab_size": 260,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 256,
    "eos_token_id": 257,
}


def save_tiny(folder: Path, model_type: str, **changes: Any) -> Path:
    """A checkpoint of this architecture with weights large enough that its logits differ clearly."""
    torch.manual_seed(3)
    config = AutoConfig.for_model(model_type, **{**_COMMON, "initializer_range": 0.2, **changes})
    AutoModelForCausalLM.from_config(config).float().save_pretrained(folder)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_tokenizer(), bos_token="<|im_start|>", eos_token="<|im_end|>"
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder
