"""What to change in each architecture's configuration so that a tiny model of it still has all its peculiarities.

Windows are shorter than the test's sequences, and layers of each kind are present, so that a mask
left out or a state carried along shows in the logits.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

_HALVES = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 16}
_ROPE = {"rope_theta": 10000.0, "rope_type": "default"}
_LINEAR = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
_EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}

DERIVED = object()
"""For a key that the architecture works out by itself and lets nobody set."""

PACKED: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {"use_sliding_window": True, "max_window_layers": 1, "layer_types": None, "sliding_window": 16},
    "qwen3": {},
    "mistral": {"sliding_window": 16},
    "gemma": {},
    "gemma2": {**_HALVES, "query_pre_attn_scalar": 16, "attn_logit_softcapping": 5.0},
    "gemma3_text": {**_HALVES, "query_pre_attn_scalar": 16},
    "gemma4_text": {
        **_HALVES,
        "vocab_size_per_layer_input": 260,
        "hidden_size_per_layer_input": 16,
        "per_layer_config": {"01": {"head_dim": 32}},
    },
    "phi": {"num_key_value_heads": 4},
    "phi3": {"sliding_window": 16},
    "olmo2": {},
    "smollm3": {"no_rope_layers": [1, 0], "no_rope_layer_interval": 2},
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512},
    "gpt_neox": {},
    "opt": {"ffn_dim": 128, "word_embed_proj_dim": 64},
    "granite": {"attention_multiplier": 0.2, "residual_multiplier": 0.7},
    "granitemoe": {**_EXPERTS, "attention_multiplier": 0.2},
    "cohere2": _HALVES,
    "qwen3_moe": _EXPERTS,
    "gpt_oss": {**_HALVES, **_EXPERTS, "rope_parameters": _ROPE},
    "deepseek_v3": {
        **_EXPERTS,
        "n_routed_experts": 4,
        "n_group": 2,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "num_key_value_heads": 4,
        "kv_lora_rank": 16,
        "q_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "head_dim": 8,
        "qk_nope_head_dim": 16,
        "v_head_dim": 12,
    },
    "glm4": {},
    "ernie4_5": {},
    "exaone4": _HALVES,
    "starcoder2": {"sliding_window": 16},
    "llama4_text": {
        **_EXPERTS,
        "intermediate_size_mlp": 128,
        "no_rope_layers": [1, 0],
        "attention_chunk_size": 16,
        "layer_types": ["chunked_attention", "full_attention"],
        "moe_layers": [1],
    },
    "apertus": {"rope_parameters": _ROPE},
    "hunyuan_v1_dense": {},
    "seed_oss": {},
    "arcee": {},
    "bitnet": {},
}
"""Those that compute in packed rows what they compute alone."""

ALONE: dict[str, dict[str, Any]] = {
    "bloom": {"n_head": 4, "n_layer": 2},
    "mpt": {"d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 512},
    "falcon": {"alibi": True, "multi_query": False, "num_kv_heads": 4, "head_dim": DERIVED},
    "stablelm": {},
    "nemotron": {},
    "lfm2": {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False},
    "qwen3_next": {**_LINEAR, **_EXPERTS, "shared_expert_intermediate_size": 32},
    "qwen3_5_text": _LINEAR,
}
"""Those whose attention cannot be exchanged, is biased by position, or that carry a state from row to row."""

COMMON: dict[str, Any] = {
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


def tiny_model(model_type: str, **changes: Any) -> Any:
    """A random float32 model with weights large enough that its logits differ clearly."""
    torch.manual_seed(3)
    wanted = {**COMMON, "initializer_range": 0.2, **changes}
    config = AutoConfig.for_model(model_type, **{key: value for key, value in wanted.items() if value is not DERIVED})
    model = AutoModelForCausalLM.from_config(config).float()
    return model.eval().requires_grad_(False)
