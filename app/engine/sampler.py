"""Draws the next token of each row, from its own logits, seed and position: never from its neighbours."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence as SequenceOf

import torch
from torch import Tensor

from app.engine.sequence import Draw, Sequence

CANDIDATES = 64
"""Tokens looked at for top-p; sorting the vocabulary instead costs fifty times as much."""


def sample(logits: Tensor, sequences: SequenceOf[Sequence]) -> list[Draw]:
    """``logits`` is ``[n, vocabulary]``, one row for each of the n sequences; returns their next tokens."""
    logits = logits.float()
    _penalise_repetition(logits, sequences)
    chosen: list[int] = logits.argmax(dim=-1).tolist()
    for row, sequence in enumerate(sequences):
        if sequence.sampling.temperature > 0.0:
            chosen[row] = _draw(logits[row], sequence)
    return [Draw(token) for token in chosen]


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that belongs to this seed and position, whatever else is going on."""
    digest = hashlib.blake2b(f"{seed}:{position}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / float(1 << 53)


def _penalise_repetition(logits: Tensor, sequences: SequenceOf[Sequence]) -> None:
    """CTRL paper, section 4.1, over the tokens of the reply.

    The prompt is left out: it holds the end-of-turn token, and a reply must be able to end.
    """
    rows: list[int] = []
    columns: list[int] = []
    penalties: list[float] = []
    for row, sequence in enumerate(sequences):
        penalty = sequence.sampling.repetition_penalty
        if penalty != 1.0 and sequence.reply_tokens:
            said = set(sequence.reply)
            rows += [row] * len(said)
            columns += said
            penalties += [penalty] * len(said)
    if not rows:
        return
    where = (torch.tensor(rows, device=logits.device), torch.tensor(columns, device=logits.device))
    factor = torch.tensor(penalties, device=logits.device)
    scores = logits[where]
    logits[where] = torch.where(scores > 0, scores / factor, scores * factor)


def _draw(logits: Tensor, sequence: Sequence) -> int:
    sampling = sequence.sampling
    scaled = logits / sampling.temperature
    point = uniform(sequence.seed, len(sequence.ids))
    if sampling.top_k == 0 and sampling.top_p >= 1.0:
        return _pick(scaled.softmax(-1), point)
    count = min(sampling.top_k or CANDIDATES, scaled.shape[-1])
    values, tokens = scaled.topk(count)
    probabilities = values.softmax(-1) if sampling.top_k else (values - scaled.logsumexp(-1)).exp()
    if sampling.top_p < 1.0:
        # Keep a token while those before it have not reached top_p, so at least one stays.
        before = probabilities.cumsum(-1) - probabilities
        probabilities = probabilities * (before < sampling.top_p)
    return int(tokens[_pick(probabilities / probabilities.sum(), point)])


def _pick(probabilities: Tensor, point: float) -> int:
    cumulative = probabilities.double().cumsum(-1)
    index = int(torch.searchsorted(cumulative, point * float(cumulative[-1]), right=True))
    return min(index, probabilities.shape[-1] - 1)
