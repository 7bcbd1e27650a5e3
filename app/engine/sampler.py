"""Draws the next token of each row, from its own logits, seed and position: never from its neighbours.

In this order: log-probabilities are taken; logit_bias is added; repetition, presence and frequency
penalties apply to the tokens of the reply (not of the prompt); what the grammar forbids is struck
out; temperature, top_k, top_p (of what top_k left) and min_p. Temperature 0, or as good as 0, takes
the likeliest, of equals the one with the lowest id.

No operation here mixes rows or adds up in an order that depends on how many there are, so a row's
draw is bit for bit the same alone and in any batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.engine.messages import SamplingSpec
from app.engine.penalties import SaidTokens, penalises
from app.engine.sequence import Draw, Sequence
from app.errors import StageError

_FIRST = 64
"""Likeliest tokens that are looked at first; sorting the vocabulary instead costs fifty times as much."""

_FLOORS = (-6.0, -12.0, -24.0, -np.inf)
"""Where those do not decide a draw, all tokens are looked at whose logit, after temperature, is not further below the
best; one floor after the other."""

_LOGPROBS = 32
"""Looked at for every row that asks for log-probabilities: the same number for all, whatever each asks for."""

_COLDEST = 1e-5
"""Below it, temperature leaves nothing but the likeliest token, and at last no number that float32 can hold."""

_BLOCK = 64

NOT_FINITE = "the model's output for this request is not a number"
NOTHING_ALLOWED = "no token may follow: logit_bias, grammar and model together exclude them all"


class Sampler:
    """Keeps what replies have said and which logits they want moved, by their sequences' keys, until ``forget``."""

    def __init__(self) -> None:
        self._said: dict[int, SaidTokens] = {}
        self._biases: dict[int, tuple[NDArray[np.int64], NDArray[np.float32]]] = {}

    def forget(self, key: int) -> None:
        """Unknown keys are fine."""
        self._said.pop(key, None)
        self._biases.pop(key, None)

    @torch.inference_mode()
    def draw(self, logits: Tensor, sequences: SequenceOf[Sequence]) -> list[Draw]:
        """``logits`` is ``[n, vocabulary]``, of any float type, one row for each of the n sequences; it is not altered.

        A row from which nothing can be drawn yields a Draw with a ``fault``, and the others go on.
        """
        scores = logits.float()
        best, chosen = likeliest(scores)
        faults = ["" if ok else NOT_FINITE for ok in best.isfinite().tolist()]
        sound = [row for row, fault in enumerate(faults) if not fault]
        logprobs = _logprobs(scores, [row for row in sound if sequences[row].sampling.logprobs is not None])
        changed = [row for row in sound if _changes(sequences[row])]
        if changed:
            if scores is logits:
                scores = scores.clone()
            self._add_biases(scores, sequences, changed)
            self._penalise(scores, sequences, changed)
            for row, fault in _constrain(scores, sequences, changed).items():
                faults[row] = fault
            best, chosen = likeliest(scores)
            possible = best.isfinite().tolist()
            for row in changed:
                faults[row] = faults[row] or ("" if possible[row] else NOTHING_ALLOWED)
        tokens: list[int] = chosen.tolist()
        drawn = [row for row in sound if sequences[row].sampling.temperature >= _COLDEST and not faults[row]]
        for row, token in zip(drawn, _draw(scores, best, sequences, drawn), strict=True):
            tokens[row] = token
        return [
            Draw(0, fault=fault) if fault else _with_logprobs(token, logprobs.get(row), sequences[row].sampling)
            for row, (token, fault) in enumerate(zip(tokens, faults, strict=True))
        ]

    def _add_biases(self, scores: Tensor, sequences: SequenceOf[Sequence], rows: list[int]) -> None:
        rows = [row for row in rows if sequences[row].sampling.logit_bias]
        if rows:
            biases = [self._bias(sequences[row], scores.shape[-1]) for row in rows]
            where = _positions(rows, [tokens for tokens, _ in biases], scores.device)
            scores[where] += _joined([added for _, added in biases], scores.device)

    def _bias(self, sequence: Sequence, vocabulary: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        bias = self._biases.get(sequence.key)
        if bias is None:
            known = {token: added for token, added in sequence.sampling.logit_bias.items() if 0 <= token < vocabulary}
            bias = np.fromiter(known.keys(), np.int64), np.fromiter(known.values(), np.float32)
            self._biases[sequence.key] = bias
        return bias

    def _penalise(self, scores: Tensor, sequences: SequenceOf[Sequence], rows: list[int]) -> None:
        rows = [row for row in rows if penalises(sequences[row].sampling) and sequences[row].reply_tokens]
        if not rows:
            return
        said: list[SaidTokens] = []
        for sequence in (sequences[row] for row in rows):
            tokens = self._said.get(sequence.key)
            if tokens is None:
                tokens = self._said[sequence.key] = SaidTokens(sequence.sampling, sequence.prompt_tokens)
            tokens.follow(sequence.ids)
            said.append(tokens)
        where = _positions(rows, [tokens.tokens for tokens in said], scores.device)
        factors = _joined([tokens.factors for tokens in said], scores.device)
        old = scores[where]
        new = torch.where(old > 0, old / factors, old * factors)
        scores[where] = new.sub_(_joined([tokens.subtrahends for tokens in said], scores.device))


def likeliest(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Highest value and its lowest index of each row of ``[n, width]``; NaN counts as highest.

    By blocks, of which the best one is searched: several times as fast as ``argmax`` and ``max``.
    """
    width = scores.shape[-1]
    blocks = width // _BLOCK
    if blocks < 2:
        chosen = scores.argmax(-1)
        return scores.gather(-1, chosen[:, None])[:, 0], chosen
    peaks = scores[:, : blocks * _BLOCK].reshape(-1, blocks, _BLOCK).amax(-1)
    if width % _BLOCK:
        peaks = torch.cat([peaks, scores[:, blocks * _BLOCK :].amax(-1, keepdim=True)], -1)
    starts = (peaks.argmax(-1) * _BLOCK).clamp_(max=width - _BLOCK)
    window = scores.gather(-1, starts[:, None] + torch.arange(_BLOCK, device=scores.device))
    return window.amax(-1), starts + window.argmax(-1)


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that belongs to this seed and position, whatever else is going on."""
    digest = hashlib.blake2b(f"{seed}:{position}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / float(1 << 53)


# --- what changes a row's logits ---------------------------------------------------------


def _changes(sequence: Sequence) -> bool:
    spec = sequence.sampling
    return bool(spec.logit_bias) or sequence.constraint is not None or penalises(spec)


def _constrain(scores: Tensor, sequences: SequenceOf[Sequence], rows: list[int]) -> dict[int, str]:
    """Strike out what the rows' grammars forbid; returns the faults of those whose grammar gives up."""
    faults: dict[int, str] = {}
    for row in rows:
        sequence = sequences[row]
        if sequence.constraint is None:
            continue
        try:
            mask = sequence.constraint.allowed(sequence.ids[sequence.prompt_tokens :])
        except StageError as error:
            faults[row] = str(error)
            continue
        # Tokens that the grammar's vocabulary does not know come out as forbidden.
        bits = np.unpackbits(np.frombuffer(mask, np.uint8), count=scores.shape[-1], bitorder="little")
        scores[row].masked_fill_(torch.from_numpy(bits == 0).to(scores.device), -torch.inf)
    return faults


def _positions(rows: list[int], tokens: list[NDArray[np.int64]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Index of every token of every row in ``[n, vocabulary]``."""
    row_of = np.repeat(np.array(rows, np.int64), [len(some) for some in tokens])
    return torch.from_numpy(row_of).to(device), _joined(tokens, device)


def _joined(arrays: list[NDArray[Any]], device: torch.device) -> Tensor:
    return torch.from_numpy(np.concatenate(arrays)).to(device)


# --- log-probabilities -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _RowLogprobs:
    all: Tensor
    """``[vocabulary]``."""
    top: list[tuple[int, float]]
    """Likeliest first."""


def _logprobs(scores: Tensor, rows: list[int]) -> dict[int, _RowLogprobs]:
    """Of the distribution that the model itself gives: before bias, penalties, grammar, temperature and filters."""
    if not rows:
        return {}
    table = scores[rows].log_softmax(-1)
    values, tokens = table.topk(min(_LOGPROBS, table.shape[-1]))
    found: dict[int, _RowLogprobs] = {}
    for row, own, row_values, row_tokens in zip(rows, table, values.tolist(), tokens.tolist(), strict=True):
        ranked = sorted(zip(row_tokens, row_values, strict=True), key=lambda pair: (-pair[1], pair[0]))
        found[row] = _RowLogprobs(own, ranked)
    return found


def _with_logprobs(token: int, logprobs: _RowLogprobs | None, spec: SamplingSpec) -> Draw:
    if logprobs is None:
        return Draw(token)
    return Draw(token, float(logprobs.all[token]), tuple(logprobs.top[: spec.logprobs]))


# --- drawing -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ranking:
    """The likeliest tokens of a row, likeliest first and of equals the lowest id; all arrays have their length.

    ``sure`` of them are in their place whatever comes after: where the last ones are equals of
    tokens that were not looked at, these may come before them.
    """

    tokens: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    cumulative: NDArray[np.float64]
    sure: int
    is_whole: bool


def _draw(scores: Tensor, best: Tensor, sequences: SequenceOf[Sequence], rows: list[int]) -> list[int]:
    if not rows:
        return []
    if len(rows) < scores.shape[0]:
        scores, best = scores[rows], best[rows]
    temperatures = torch.tensor([[sequences[row].sampling.temperature] for row in rows], device=scores.device)
    # Relative to the best, so that a tiny temperature gives minus infinity at worst.
    scaled = (scores - best[:, None]).div_(temperatures)
    # Not logsumexp: a sum over one row alone may be split among threads, and round differently.
    probabilities = scaled.softmax(-1)
    first = min(_FIRST, scaled.shape[-1])
    values, tokens = scaled.topk(first)
    found = probabilities.gather(-1, tokens)
    ranked_values, ranked_tokens, ranked = values.cpu().numpy(), tokens.cpu().numpy(), found.cpu().numpy()
    chosen: list[int] = []
    for index, row in enumerate(rows):
        sequence = sequences[row]
        point = uniform(sequence.seed, len(sequence.ids))
        ranking = _rank(ranked_values[index], ranked_tokens[index], ranked[index], first == scaled.shape[-1])
        token = _pick(ranking, sequence.sampling, point)
        if token is None:
            token = _pick_further(scaled[index], probabilities[index], ranking, sequence.sampling, point)
        chosen.append(token)
    return chosen


def _pick_further(scaled: Tensor, probabilities: Tensor, ranking: _Ranking, spec: SamplingSpec, point: float) -> int:
    """The draw of a row that its likeliest tokens do not decide."""
    if not _filters(spec):
        return _pick_among_rest(probabilities.cpu().numpy(), ranking, point)
    values, everything = scaled.cpu().numpy(), probabilities.cpu().numpy()
    for floor in _FLOORS:
        kept = np.flatnonzero(values >= floor)
        tokens = kept[_order(values[kept])]
        exact = everything[tokens].astype(np.float64)
        token = _pick(_Ranking(tokens, exact, exact.cumsum(), len(kept), len(kept) == len(values)), spec, point)
        if token is not None:
            return token
    raise AssertionError("the whole vocabulary decides every draw")


def _order(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """Indices of values that are at most 0, the highest first and of equals the lowest index.

    The bits of such numbers, read as integers, grow with their size; with the index behind them
    they are sorted several times as fast as by an argsort.
    """
    keys = np.abs(values).view(np.uint32).astype(np.uint64) << np.uint64(32)
    keys |= np.arange(len(values), dtype=np.uint64)
    keys.sort()
    keys &= np.uint64(0xFFFFFFFF)
    return keys.astype(np.int64)


def _filters(spec: SamplingSpec) -> bool:
    return spec.top_k > 0 or spec.top_p < 1.0 or spec.min_p > 0.0


def _rank(
    values: NDArray[np.float32], tokens: NDArray[np.int64], probabilities: NDArray[np.float32], is_whole: bool
) -> _Ranking:
    order = np.lexsort((tokens, -values))
    exact = probabilities[order].astype(np.float64)
    sure = len(order) if is_whole else int(np.count_nonzero(values > values.min()))
    return _Ranking(tokens[order], exact, exact.cumsum(), sure, is_whole)


def _pick(ranking: _Ranking, spec: SamplingSpec, point: float) -> int | None:
    """The token at ``point`` of what the filters keep, laid end to end; None if the ranking does not reach so far."""
    cumulative, count = ranking.cumulative, ranking.sure
    mass, is_cut = 1.0, ranking.is_whole
    if spec.top_k:
        if spec.top_k <= count:
            count, is_cut = spec.top_k, True
        elif not is_cut:
            return None
        mass = float(cumulative[count - 1])
    if spec.top_p < 1.0:
        # A token stays while those before it have not reached top_p, so at least one does.
        reach = int(np.searchsorted(cumulative[:count], spec.top_p * mass)) + 1
        if reach <= count:
            count, is_cut = reach, True
        elif not is_cut:
            return None
    if spec.min_p > 0.0:
        kept = int(np.count_nonzero(ranking.probabilities[:count] >= spec.min_p * ranking.probabilities[0]))
        if kept < count:
            count, is_cut = kept, True
        elif not is_cut:
            return None
    if not is_cut:
        index = int(np.searchsorted(cumulative[:count], point, side="right"))
        return int(ranking.tokens[index]) if index < count else None
    total = float(cumulative[count - 1])
    # Rounding must not lead past the end, where what is impossible stands.
    target = min(point * total, float(np.nextafter(total, 0.0)))
    return int(ranking.tokens[np.searchsorted(cumulative[:count], target, side="right")])


def _pick_among_rest(probabilities: NDArray[np.float32], ranking: _Ranking, point: float) -> int:
    """Without filters the order beyond the likeliest does not matter: by id, which needs no sorting."""
    rest = probabilities.astype(np.float64)
    rest[ranking.tokens[: ranking.sure]] = 0.0
    cumulative = rest.cumsum()
    if cumulative[-1] == 0.0:  # rounding led past all that is possible
        return int(ranking.tokens[np.count_nonzero(ranking.probabilities[: ranking.sure]) - 1])
    covered = float(ranking.cumulative[ranking.sure - 1]) if ranking.sure else 0.0
    target = min(max(point - covered, 0.0), float(np.nextafter(cumulative[-1], 0.0)))
    return int(np.searchsorted(cumulative, target, side="right"))
