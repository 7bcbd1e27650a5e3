"""A tiny Qwen3 model written as llama.cpp's tools would write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import torch

from tests.kit.architectures import tiny_model
from tests.kit.engine_world import byte_tokenizer

CONTEXT = 256


def save_tiny_gguf(path: Path, template: str) -> Any:
    """Writes the file, and returns the model that is in it."""
    # Heads of 128, because readers take that for granted in a Qwen3 file.
    heads = {"head_dim": 128, "num_attention_heads": 2, "num_key_value_heads": 1}
    model = tiny_model("qwen3", max_position_embeddings=CONTEXT, **heads)
    config = model.config
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    _add_vocabulary(writer, config.vocab_size, template)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        known = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert known is not None, name
        writer.add_tensor(known, weight.to(torch.float32).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def _add_vocabulary(writer: Any, size: int, template: str) -> None:
    vocabulary = byte_tokenizer().get_vocab(with_added_tokens=True)
    tokens = sorted(vocabulary, key=lambda token: vocabulary[token])
    special = [token for token in tokens if token.startswith("<|")]
    tokens.append("th")
    special += [f"<spare{index}>" for index in range(size - len(tokens))]
    tokens += special[2:]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    kinds = [gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token in tokens]
    writer.add_token_types(kinds)
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(vocabulary["<|im_end|>"])
    writer.add_chat_template(template)
