"""How far into a conversation a model's positions can be trusted when sequences share a row and keep their keys."""

from __future__ import annotations

from typing import Any

_UNLIMITED = 1 << 30


def longest_context(config: Any) -> int:
    """Tokens, from a transformers configuration.

    Besides the model's own limit: rotary embeddings that change their frequencies once anybody's text is long enough
    ("longrope" of Phi, "dynamic") would turn the neighbours' queries and leave the keys already kept as they were, and
    Llama 4's temperature counts rows, not positions. Up to where that begins, they are as the model means them.
    """
    text = config.get_text_config()
    limits = [int(getattr(text, "max_position_embeddings", None) or _UNLIMITED)]
    rotary = getattr(text, "rope_parameters", None) or {}
    for parameters in (rotary, *(value for value in rotary.values() if isinstance(value, dict))):
        if parameters.get("rope_type") in ("longrope", "dynamic"):
            original = parameters.get("original_max_position_embeddings")
            original = original or getattr(text, "original_max_position_embeddings", None)
            limits.append(int(original or _UNLIMITED))
    if getattr(text, "attn_temperature_tuning", False):
        limits.append(int(text.floor_scale) - 1)
    return min(limits)
