"""The common pre-norm GQA decoder family (Llama, SmolLM, Mistral, Qwen2, Qwen3), read into plain tensors.

What a lean runner needs and nothing else: projections fused (query, key and value; gate and up),
norms, and the tables of the rotary embedding.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import Any, overload

import torch
from torch import Tensor

_STATIC_ROPES = ("default", "linear", "llama3", "yarn")
"""Whose frequencies do not change with the length of what is read."""


class NotLean(Exception):
    """The model is built otherwise; the message says where it differs."""


@dataclass(frozen=True, slots=True)
class LeanLayer:
    """Weights are ``[out, in]``. ``window`` counts the positions that a row may look at, itself included; 0 for all."""

    qkv: Tensor
    qkv_bias: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    gate_up: Tensor
    down: Tensor
    norm_in: Tensor
    norm_mid: Tensor
    norm_q: Tensor | None
    norm_k: Tensor | None
    window: int
    rotates: bool


@dataclass(frozen=True, slots=True)
class LeanModel:
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    eps: float
    scale: float
    layers: SequenceOf[LeanLayer]
    """Fused as they are asked for, so that a large model is not in memory twice."""
    norm_out: Tensor
    embedding: Tensor
    head: Tensor
    """``[vocabulary, hidden]``; the embedding itself where the two are tied."""
    cos: Tensor
    sin: Tensor
    """``[positions, head_dim / 2]``, float32."""

    @property
    def vocabulary(self) -> int:
        return int(self.head.shape[0])


def read(model: Any, positions: int) -> LeanModel:
    """Take a transformers model apart; tensors are shared with it where they need no fusing.

    Raises NotLean for anything that this family does not have; what cannot be seen in the
    modules, the self-check on real logits finds (loader.py).
    """
    config = model.config
    if config.model_type not in ("llama", "mistral", "qwen2", "qwen3", "smollm3"):
        raise NotLean(f"model type {config.model_type}")
    if config.hidden_act != "silu":
        raise NotLean(f"activation {config.hidden_act}")
    decoder = model.model
    first = decoder.layers[0].self_attn
    head_dim = int(getattr(first, "head_dim", config.hidden_size // config.num_attention_heads))
    cos, sin = _rotary_tables(decoder.rotary_emb, config, positions)
    if cos.shape[1] * 2 != head_dim:
        raise NotLean("only a part of each head is rotated")
    return LeanModel(
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=head_dim,
        inner=config.intermediate_size,
        eps=config.rms_norm_eps,
        scale=float(first.scaling),
        layers=_Layers(decoder.layers, config),
        norm_out=decoder.norm.weight,
        embedding=decoder.embed_tokens.weight,
        head=model.lm_head.weight,
        cos=cos,
        sin=sin,
    )


class _Layers(SequenceOf[LeanLayer]):
    def __init__(self, layers: Any, config: Any) -> None:
        self._layers = layers
        self._config = config
        _layer(layers[0], config, 0)  # what is built otherwise should be noticed at once

    def __len__(self) -> int:
        return len(self._layers)

    @overload
    def __getitem__(self, index: int) -> LeanLayer: ...

    @overload
    def __getitem__(self, index: slice) -> SequenceOf[LeanLayer]: ...

    def __getitem__(self, index: int | slice) -> LeanLayer | SequenceOf[LeanLayer]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        return _layer(self._layers[index], self._config, index)


def _layer(layer: Any, config: Any, index: int) -> LeanLayer:
    attention, mlp = layer.self_attn, layer.mlp
    if any(getattr(linear, "bias", None) is not None for linear in (mlp.gate_proj, mlp.up_proj, mlp.down_proj)):
        raise NotLean("biases in the MLP")
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    biases = [projection.bias for projection in projections if projection.bias is not None]
    return LeanLayer(
        qkv=torch.cat([projection.weight for projection in projections]),
        qkv_bias=torch.cat(biases) if biases else None,
        out=attention.o_proj.weight,
        out_bias=attention.o_proj.bias,
        gate_up=torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
        down=mlp.down_proj.weight,
        norm_in=layer.input_layernorm.weight,
        norm_mid=layer.post_attention_layernorm.weight,
        norm_q=attention.q_norm.weight if hasattr(attention, "q_norm") else None,
        norm_k=attention.k_norm.weight if hasattr(attention, "k_norm") else None,
        window=_window(config, index),
        rotates=bool(getattr(attention, "use_rope", True)),
    )


def _window(config: Any, index: int) -> int:
    kinds = getattr(config, "layer_types", None)
    window = int(getattr(config, "sliding_window", None) or 0)
    return window if kinds is None or kinds[index] == "sliding_attention" else 0


def _rotary_tables(rotary: Any, config: Any, positions: int) -> tuple[Tensor, Tensor]:
    """Su et al., RoFormer: angle = position / theta^(2i/d); scaled variants bring their own frequencies."""
    kind = getattr(rotary, "rope_type", "default")
    if kind not in _STATIC_ROPES:
        raise NotLean(f"rotary embedding of type {kind}")
    angles = torch.arange(positions, dtype=torch.float32)[:, None] * rotary.inv_freq.float().cpu()[None]
    scaling = float(getattr(rotary, "attention_scaling", 1.0))
    return angles.cos() * scaling, angles.sin() * scaling
