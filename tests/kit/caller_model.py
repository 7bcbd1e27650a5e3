"""A tiny GPT-2 that knows one tool call and one answer by heart: a real model that really calls a tool.

Its position embeddings hold what to say at each position, its layer adds nothing, and its head reads that out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from tests.kit.engine_world import byte_tokenizer
from tests.kit.tool_templates import HERMES

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
ARGUMENTS = {"city": "Paris"}
QUESTION = {"role": "user", "content": "Warm in Paris?"}
ANSWER = "It has 21 degrees."
_CALL = f'One moment.\n<tool_call>\n{{"name": "weather", "arguments": {json.dumps(ARGUMENTS)}}}\n</tool_call>'
_CALLED = {
    "role": "assistant",
    "content": "One moment.\n",
    "tool_calls": [{"id": "x", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}}],
}
_RESULT = {"role": "tool", "content": "21", "tool_call_id": "x"}
_WIDTH = 264
"""At least one dimension for each token, and a multiple of the heads."""
_POSITIONS = 1024


def save_caller(folder: Path) -> Path:
    """A checkpoint that transformers loads like any other."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_tokenizer(), bos_token="<|im_start|>", eos_token="<|im_end|>"
    )
    tokenizer.chat_template = HERMES
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=_POSITIONS,
        n_embd=_WIDTH,
        n_layer=1,
        n_head=4,
        tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = GPT2LMHeadModel(config)
    says = [tokenizer.eos_token_id] * _POSITIONS
    for messages, reply in (([QUESTION], _CALL), ([QUESTION, _CALLED, _RESULT], ANSWER)):
        prompt = tokenizer.apply_chat_template(messages, tools=TOOLS, tokenize=False, add_generation_prompt=True)
        begins = len(tokenizer(prompt, add_special_tokens=False).input_ids) - 1
        ids = tokenizer(reply, add_special_tokens=False).input_ids
        says[begins : begins + len(ids)] = ids
    with torch.no_grad():
        layer = model.transformer.h[0]
        for weights in (layer.attn.c_proj.weight, layer.mlp.c_proj.weight, model.transformer.wte.weight):
            weights.zero_()
        model.transformer.wpe.weight.copy_(torch.nn.functional.one_hot(torch.tensor(says), _WIDTH))
        model.lm_head.weight.copy_(torch.eye(len(tokenizer), _WIDTH))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
