"""transformers' own continuous batching: ``python -m benchmarks.peers.transformers_continuous FOLDER THREADS``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, ContinuousBatchingConfig, GenerationConfig

from benchmarks.peers.inside import ContinuousEngine, Progress, serve
from benchmarks.workloads import ChatMessage

_BLOCKS = 96
"""Of 256 tokens each: room for 32 conversations of this benchmark."""
_STEP_TOKENS = 512


class TransformersContinuous(ContinuousEngine):
    def __init__(self, folder: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
        with torch.inference_mode():  # the manager's thread takes this mode over
            self._manager = model.init_continuous_batching(
                generation_config=GenerationConfig(do_sample=False, eos_token_id=-1, max_new_tokens=64),
                continuous_batching_config=ContinuousBatchingConfig(num_blocks=_BLOCKS, max_batch_tokens=_STEP_TOKENS),
            )
            self._manager.start()
        self._counted: dict[str, int] = {}
        self._keys: dict[str, int] = {}

    def begin(self, key: int, messages: Sequence[ChatMessage], reply_tokens: int) -> int:
        text = self._tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=False)
        ids = self._tokenizer(text, add_special_tokens=False).input_ids
        name = self._manager.add_request(ids, max_new_tokens=reply_tokens, streaming=True, eos_token_id=-1)
        self._keys[name], self._counted[name] = key, 0
        return len(ids)

    def advance(self) -> list[Progress]:
        output = self._manager.get_result(timeout=60.0)
        if output is None:
            raise RuntimeError("no token within a minute, or the generation thread has ended")
        if output.error:
            raise RuntimeError(output.error)
        name = output.request_id
        tokens = len(output.generated_tokens) - self._counted[name]
        self._counted[name] += tokens
        text = self._tokenizer.decode(output.generated_tokens) if output.is_finished() else None
        return [Progress(self._keys[name], tokens, text)]


if __name__ == "__main__":
    serve(lambda: TransformersContinuous(sys.argv[1], int(sys.argv[2])))
