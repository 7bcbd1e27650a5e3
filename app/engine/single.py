"""The runner for models that cannot share a packed row: one sequence at a time, with the model's own cache.

Such a cache (a recurrent state, say) lies outside the paged pool, so it is kept here, from step to step and from turn
to turn. It is only ever a saving: a sequence whose cache is gone is computed again from its first token.
"""

from __future__ import annotations

import enum
import inspect
import logging
from collections import OrderedDict
from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor

from app.engine.sequence import Chunk, RunnerTraits, Sequence, SessionKey
from app.telemetry.log import log_event

log = logging.getLogger(__name__)

_CACHE_NAMES = ("cache", "past_key_values", "cache_params", "state")
"""What forward passes call their cache, the newest name first."""


class Keeping(enum.Enum):
    """How far a model can go on from its own cache."""

    CHUNKS = "any number of tokens may follow"
    TOKENS = "one token at a time may follow"
    NOTHING = "it is not right after any"


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes of a cache: what it holds at any length, and what each token adds."""

    fixed: int
    per_token: int

    def of(self, tokens: int) -> int:
        return self.fixed + self.per_token * tokens


@dataclass(slots=True)
class _Held:
    """A cache and the ``ids`` that it has seen."""

    session: SessionKey | None
    salt: bytes
    ids: list[int] = field(default_factory=list)
    cache: Any = None
    logits: Tensor | None = None
    """``[1, vocabulary]`` after the last of the ids, for a step that has to be repeated."""


class SingleRunner:
    """Right for every model, and slower than a packed pass.

    A sequence that starts takes up the cache that its session left, if the new prompt goes on from it exactly; a cache
    of plain keys and values is also cut back to what the two have in common. Idle caches leave by LRU.
    """

    name = "single"

    def __init__(self, model: Any, device: str, keeping: Keeping, cost: Cost, budget_bytes: int) -> None:
        self._model = model
        self._device = device
        self._keeping = keeping
        self._cost = cost
        self._budget_bytes = budget_bytes
        self._cache_name = _cache_name(model)
        self._running: dict[int, _Held] = {}
        self._idle: OrderedDict[int, _Held] = OrderedDict()
        self.traits = RunnerTraits(can_chunk=keeping is Keeping.CHUNKS, can_reuse=False)
        self.evictions = 0

    @property
    def held_bytes(self) -> int:
        caches = (*self._running.values(), *self._idle.values())
        return sum(self._cost.of(len(held.ids)) for held in caches)

    @torch.inference_mode()
    def run(self, chunks: SequenceOf[Chunk]) -> Tensor | None:
        rows = [row for chunk in chunks if (row := self._run_one(chunk)) is not None]
        self._make_room()
        return torch.cat(rows) if rows else None

    def forget(self, key: int) -> None:
        """The sequence is over: its cache waits for the session's next turn."""
        held = self._running.pop(key, None)
        # Where only single tokens may follow, running a new turn one by one costs more than running all of it at once.
        if held is not None and held.ids and self._keeping is Keeping.CHUNKS:
            held.logits = None
            self._idle[key] = held
            self._make_room()

    def _run_one(self, chunk: Chunk) -> Tensor | None:
        sequence = chunk.sequence
        held = self._running.pop(sequence.key, None)  # and back only if nothing fails: a half-written cache is no cache
        if held is None:
            held = self._take_up(sequence)
        if self._keeping is Keeping.NOTHING:
            held.logits = self._forward(sequence.ids[: chunk.stop], held) if chunk.samples else None
        else:
            for start, stop in self._parts(chunk, len(held.ids)):
                ids = sequence.ids[start:stop]
                held.logits = self._forward(ids, held)
                held.ids += ids
        self._running[sequence.key] = held
        return held.logits if chunk.samples else None

    def _parts(self, chunk: Chunk, seen: int) -> Iterable[tuple[int, int]]:
        """What is left of a chunk, cut the same way whatever else the steps hold, so that rounding is the same too."""
        if seen >= chunk.stop:
            return []  # it was preempted, and its cache is still here
        if self._keeping is Keeping.CHUNKS:
            cells = Chunk(chunk.sequence, seen, chunk.stop - seen).cells()
            return [(start, start + count) for start, count in cells]
        if seen == 0:
            return [(0, chunk.stop)]
        return [(position, position + 1) for position in range(seen, chunk.stop)]

    def _forward(self, ids: list[int], held: _Held) -> Tensor:
        """Logits ``[1, vocabulary]`` after the last of ``ids``, which follow what the cache has seen."""
        rows = torch.tensor([ids], device=self._device)
        if self._keeping is Keeping.NOTHING:
            output = self._model(input_ids=rows, use_cache=False)
        else:
            output = self._model(input_ids=rows, use_cache=True, logits_to_keep=1, **{self._cache_name: held.cache})
            held.cache = output[self._cache_name]
        logits: Tensor = output.logits[0, -1:]
        return logits

    def _take_up(self, sequence: Sequence) -> _Held:
        """The idle cache of the sequence's session that agrees with its prompt the longest, or an empty one."""
        best, kept = None, 0
        for key, held in self._idle.items():
            if (held.session, held.salt) != (sequence.session, sequence.salt):
                continue
            agreed = _agreement(held.ids, sequence.ids)
            usable = agreed if agreed == len(held.ids) or _can_cut(held.cache) else 0
            if usable > kept:
                best, kept = key, usable
        if best is None:
            return _Held(sequence.session, sequence.salt)
        held = self._idle.pop(best)
        if kept < len(held.ids):
            _cut(held.cache, kept)
            del held.ids[kept:]
        if not sequence.reply_tokens:  # what is computed again after a preemption was not saved
            sequence.cached_tokens = kept
        return held

    def _make_room(self) -> None:
        while self._idle and self.held_bytes > self._budget_bytes:
            self._idle.popitem(last=False)
            self.evictions += 1


@torch.inference_mode()
def examine(model: Any, device: str, largest_deviation: float) -> tuple[Keeping, Cost]:
    """Find out on the loaded weights how far the model can go on from its cache, and what one costs."""
    vocabulary = int(model.get_input_embeddings().num_embeddings)
    ids = torch.randint(vocabulary, (40,), generator=torch.Generator().manual_seed(0)).tolist()
    expected = model(input_ids=torch.tensor([ids], device=device), use_cache=False).logits[0, -1:].float()
    for keeping, stops in ((Keeping.CHUNKS, (24, 25, 27, 40)), (Keeping.TOKENS, (37, 38, 39, 40))):
        runner = SingleRunner(model, device, keeping, Cost(0, 0), 0)
        held = _Held(None, b"")
        sizes: list[int] = []
        try:
            for start, stop in zip((0, *stops), stops, strict=False):
                got = runner._forward(ids[start:stop], held).float()
                sizes.append(_bytes(held.cache))
        except Exception as error:
            log_event(log, "llm.cache", why=f"the model does not go on from its cache: {error}")
            continue
        deviation = float((got - expected).square().mean().sqrt() / expected.std())
        if deviation <= largest_deviation:
            per_token = (sizes[-1] - sizes[0]) // (stops[-1] - stops[0])
            return keeping, Cost(max(0, sizes[0] - per_token * stops[0]), per_token)
        why = f"after {stops[:-1]} tokens from the cache logits are off by {deviation:.3f}"
        log_event(log, "llm.cache", why=why)
    return Keeping.NOTHING, Cost(0, 0)


def _cache_name(model: Any) -> str:
    taken = inspect.signature(model.forward).parameters
    return next((name for name in _CACHE_NAMES if name in taken), _CACHE_NAMES[0])


def _agreement(held: SequenceOf[int], ids: SequenceOf[int]) -> int:
    """Leading tokens in common, without the last of ``ids``, whose logits are needed."""
    limit = min(len(held), len(ids) - 1)
    if held[:limit] == ids[:limit]:
        return limit
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(held, ids, strict=False)))


def _can_cut(cache: Any) -> bool:
    """Plain keys and values can be cut back; a state that has moved on, or a window that has slid, cannot."""
    from transformers.cache_utils import DynamicLayer

    layers = getattr(cache, "layers", [])
    return len(layers) > 0 and all(type(layer) is DynamicLayer for layer in layers)


def _cut(cache: Any, tokens: int) -> None:
    for layer in cache.layers:
        layer.keys, layer.values = layer.keys[..., :tokens, :], layer.values[..., :tokens, :]


def _bytes(held: Any) -> int:
    """Of all tensors that are reachable through lists, dictionaries and plain attributes."""
    if isinstance(held, Tensor):
        return held.nbytes
    if isinstance(held, dict):
        return sum(map(_bytes, held.values()))
    if isinstance(held, list | tuple):
        return sum(map(_bytes, held))
    return _bytes(vars(held)) if hasattr(held, "__dict__") and not isinstance(held, type) else 0
