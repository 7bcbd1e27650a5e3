"""OpenVINO GenAI's continuous batching, in process: ``python -m benchmarks.peers.openvino FOLDER THREADS``.

FOLDER is an export of optimum-intel. Prefix caching is on and the precision is bf16.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import openvino_genai as genai  # type: ignore[import-not-found]

from benchmarks.peers.inside import ContinuousEngine, Progress, serve
from benchmarks.workloads import ChatMessage

_CACHE_GIB = 1


class OpenVino(ContinuousEngine):
    def __init__(self, folder: str, threads: int) -> None:
        scheduling = genai.SchedulerConfig()
        scheduling.cache_size = _CACHE_GIB
        scheduling.enable_prefix_caching = True
        properties = {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": threads}
        self._pipeline = genai.ContinuousBatchingPipeline(folder, scheduling, "CPU", properties)
        self._tokenizer = self._pipeline.get_tokenizer()
        self._handles: dict[int, Any] = {}
        self._ids: dict[int, list[int]] = {}
        self._number = 0

    def begin(self, key: int, messages: Sequence[ChatMessage], reply_tokens: int) -> int:
        text = self._tokenizer.apply_chat_template(list(messages), add_generation_prompt=True)
        prompt = self._tokenizer.encode(text, add_special_tokens=False).input_ids
        wanted = genai.GenerationConfig()
        wanted.max_new_tokens = reply_tokens
        wanted.ignore_eos = True
        self._number += 1
        self._handles[key] = self._pipeline.add_request(self._number, prompt, wanted)
        self._ids[key] = []
        return int(prompt.shape[1])

    def advance(self) -> list[Progress]:
        self._pipeline.step()
        reports = []
        for key, handle in list(self._handles.items()):
            tokens = 0
            while handle.can_read():
                for output in handle.read().values():
                    self._ids[key] += output.generated_ids
                    tokens += len(output.generated_ids)
            over = handle.get_status() == genai.GenerationStatus.FINISHED
            if over:
                del self._handles[key]
            if tokens or over:
                reports.append(Progress(key, tokens, self._tokenizer.decode(self._ids[key]) if over else None))
        return reports


if __name__ == "__main__":
    serve(lambda: OpenVino(sys.argv[1], int(sys.argv[2])))
