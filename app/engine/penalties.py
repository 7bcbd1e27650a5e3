"""What a reply has said so far, kept up to date token by token, so that penalties cost little however long it is."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engine.messages import SamplingSpec

_FIRST_CAPACITY = 64


def penalises(spec: SamplingSpec) -> bool:
    return spec.repetition_penalty != 1.0 or spec.presence_penalty != 0.0 or spec.frequency_penalty != 0.0


class SaidTokens:
    """The distinct tokens of one reply with their counts, as arrays that grow by doubling.

    The prompt is left out: it holds the end-of-turn token, and a reply must be able to end.
    """

    def __init__(self, spec: SamplingSpec, prompt_tokens: int) -> None:
        self._read = prompt_tokens
        self._slots: dict[int, int] = {}
        self._tokens: NDArray[np.int64] = np.empty(_FIRST_CAPACITY, np.int64)
        self._counts: NDArray[np.float32] = np.empty(_FIRST_CAPACITY, np.float32)
        self._factors: NDArray[np.float32] = np.full(_FIRST_CAPACITY, spec.repetition_penalty, np.float32)
        self._spec = spec

    def follow(self, ids: SequenceOf[int]) -> None:
        """Take in what was added to ``ids``, prompt and reply. A reply that is computed again adds nothing."""
        for token in ids[self._read :]:
            slot = self._slots.get(token)
            if slot is not None:
                self._counts[slot] += 1.0
                continue
            slot = self._slots[token] = len(self._slots)
            if slot == len(self._tokens):
                self._tokens, self._counts, self._factors = (
                    _doubled(array) for array in (self._tokens, self._counts, self._factors)
                )
                self._factors[slot:] = self._spec.repetition_penalty
            self._tokens[slot] = token
            self._counts[slot] = 1.0
        self._read = max(self._read, len(ids))

    @property
    def tokens(self) -> NDArray[np.int64]:
        return self._tokens[: len(self._slots)]

    @property
    def factors(self) -> NDArray[np.float32]:
        """By which logits above 0 are divided and others multiplied (CTRL paper, section 4.1)."""
        return self._factors[: len(self._slots)]

    @property
    def subtrahends(self) -> NDArray[np.float32]:
        """Taken off the logits: presence_penalty once, frequency_penalty for each occurrence (OpenAI API reference)."""
        counts = self._counts[: len(self._slots)]
        return counts * np.float32(self._spec.frequency_penalty) + np.float32(self._spec.presence_penalty)


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.empty_like(array)])
