"""transformers' ``generate`` on padded batches: ``python -m benchmarks.peers.transformers_static FOLDER THREADS BATCH``.

Requests are taken in the order of their arrival, up to BATCH of them at once; a batch runs until its longest reply is
complete, and then its replies are handed out. BATCH 1 is one request at a time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, StoppingCriteria, StoppingCriteriaList

from benchmarks.measure import Reply
from benchmarks.peers.inside import Engine, serve
from benchmarks.workloads import ChatMessage, Conversation, Turn


class _Stamps(StoppingCriteria):  # type: ignore[misc]
    """Stops nothing; notes when each token of the batch was there."""

    def __init__(self) -> None:
        self.at_s: list[float] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        self.at_s.append(time.perf_counter())
        return torch.zeros(input_ids.shape[0], dtype=torch.bool)


class TransformersStatic(Engine):
    def __init__(self, folder: str, threads: int, batch: int) -> None:
        torch.set_num_threads(threads)
        self._batch = batch
        self._tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
        self._model.generation_config.do_sample = False

    def hold(self, conversations: Sequence[Conversation]) -> list[list[Reply]]:
        histories = [conversation.opening() for conversation in conversations]
        held: list[list[Reply]] = [[] for _ in conversations]
        # All turns of a number together: a static server has nothing else to do in between.
        for number in range(max(len(conversation.turns) for conversation in conversations)):
            sent_s = time.perf_counter()
            for first in range(0, len(conversations), self._batch):
                members = range(first, min(first + self._batch, len(conversations)))
                turns = [conversations[member].turns[number] for member in members]
                for member, turn in zip(members, turns, strict=True):
                    histories[member].append({"role": "user", "content": turn.text})
                replies = self._generate([histories[member] for member in members], turns, sent_s)
                for member, reply in zip(members, replies, strict=True):
                    histories[member].append({"role": "assistant", "content": reply.text})
                    held[member].append(reply)
        return held

    @torch.inference_mode()
    def _generate(self, prompts: Sequence[Sequence[ChatMessage]], turns: Sequence[Turn], sent_s: float) -> list[Reply]:
        texts = [
            self._tokenizer.apply_chat_template(list(one), add_generation_prompt=True, tokenize=False)
            for one in prompts
        ]
        inputs = self._tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
        longest = max(turn.reply_tokens for turn in turns)
        stamps = _Stamps()
        ids = self._model.generate(
            **inputs,
            max_new_tokens=longest,
            min_new_tokens=longest,  # bans end-of-text until then
            stopping_criteria=StoppingCriteriaList([stamps]),
        )[:, inputs["input_ids"].shape[1] :]
        done_s = time.perf_counter()
        used = inputs["attention_mask"].sum(1).tolist()
        return [
            Reply(
                sent_s=sent_s,
                stamps_s=tuple(stamps.at_s[: turn.reply_tokens]),
                done_s=done_s,
                tokens=turn.reply_tokens,
                wanted_tokens=turn.reply_tokens,
                prompt_tokens=int(used[row]),
                text=self._tokenizer.decode(ids[row, : turn.reply_tokens], skip_special_tokens=True),
            )
            for row, turn in enumerate(turns)
        ]


if __name__ == "__main__":
    serve(lambda: TransformersStatic(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
