from __future__ import annotations

from typing import Any

import pytest
from transformers import AutoConfig

from app.engine.positions import longest_context
from tests.kit.architectures import ALONE, COMMON, PACKED

LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0] * 8,
    "long_factor": [2.0] * 8,
    "original_max_position_embeddings": 128,
}


@pytest.mark.parametrize(
    ("model_type", "changes", "expected"),
    [
        ("llama", {}, 512),
        ("gpt2", PACKED["gpt2"], 512),
        ("bloom", ALONE["bloom"], 1 << 30),
        ("phi3", {"rope_parameters": LONGROPE, "original_max_position_embeddings": 128}, 128),
        ("llama4_text", {**PACKED["llama4_text"], "floor_scale": 64}, 63),
        ("llama4_text", {**PACKED["llama4_text"], "floor_scale": 64, "attn_temperature_tuning": False}, 512),
    ],
)
def test_a_context_ends_where_positions_would_change_their_meaning(
    model_type: str, changes: dict[str, Any], expected: int
) -> None:
    common = {key: value for key, value in COMMON.items() if model_type != "bloom" or "position" not in key}
    assert longest_context(AutoConfig.for_model(model_type, **{**common, **changes})) == expected
