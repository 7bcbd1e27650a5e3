"""What a quantization costs in quality: a text is read through the runner that serves, token by token.

Teacher-forced: after each token the model's own choice is compared with the reference's choice at that place, and the
probability that it gave to the token that really follows counts towards the perplexity (exp of the mean negative
log-likelihood).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from app.engine.loader import LoadedModel, load
from app.engine.messages import SamplingSpec
from app.engine.options import LoadOptions, Quantization
from app.engine.sequence import Chunk, Sequence
from app.errors import InvalidRequest

WINDOW_TOKENS = 256
"""The text is cut into pieces of this length, which are read side by side like the replies of as many callers."""
GIVEN_TOKENS = 64
"""Of each window: prefilled, and not scored."""
_WINDOWS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Quality:
    """``agreement`` is the share of places with the same likeliest token as the reference, which is the first mode."""

    quantization: Quantization
    runner: str
    tokens: int
    """That were scored."""
    perplexity: float
    agreement: float


@dataclass(frozen=True, slots=True)
class _Reading:
    choices: Tensor
    """Likeliest token at each place, ``[tokens]``."""
    log_likelihood: float
    """Sum over all places, natural logarithm."""


def measure(
    options: LoadOptions,
    text: str,
    modes: tuple[Quantization, ...],
    *,
    most_tokens: int,
    threads: int,
    on_mode: Callable[[Quality], None] = lambda quality: None,
) -> list[Quality]:
    """One after the other, compared with the first. Raises ModelError, and InvalidRequest if the text is too short."""
    torch.set_num_threads(threads)
    found: list[Quality] = []
    reference: Tensor | None = None
    for mode in modes:
        loaded = load(replace(options, quantization=mode))
        windows = _windows(loaded, text, most_tokens)
        reading = _read(loaded, windows)
        if reference is None:
            reference = reading.choices
        tokens = len(reading.choices)
        found.append(
            Quality(
                quantization=mode,
                runner=loaded.runner,
                tokens=tokens,
                perplexity=math.exp(-reading.log_likelihood / tokens),
                agreement=float((reading.choices == reference).float().mean()),
            )
        )
        on_mode(found[-1])
        del loaded  # two models at once may be more than the machine has room for
    return found


def _windows(loaded: LoadedModel, text: str, most_tokens: int) -> list[list[int]]:
    ids = loaded.prompts.vocabulary.encode(text, is_template=False)[0][:most_tokens]
    whole = len(ids) // WINDOW_TOKENS
    if not whole:
        raise InvalidRequest(
            f"the text has {len(ids)} tokens, and at least {WINDOW_TOKENS} are needed: use a longer one"
        )
    return [ids[first * WINDOW_TOKENS : (first + 1) * WINDOW_TOKENS] for first in range(whole)]


@torch.inference_mode()
def _read(loaded: LoadedModel, windows: list[list[int]]) -> _Reading:
    choices: list[Tensor] = []
    total = 0.0
    blocks_each = -(-WINDOW_TOKENS // loaded.block_tokens)
    at_once = max(1, min(_WINDOWS_AT_ONCE, loaded.blocks // blocks_each))
    for first in range(0, len(windows), at_once):
        some = windows[first : first + at_once]
        following = torch.tensor(some)[:, GIVEN_TOKENS:]
        for place, logits in enumerate(_steps(loaded, some, blocks_each)):
            scores = logits.float().log_softmax(-1).cpu()
            choices.append(scores.argmax(-1))
            total += float(scores.gather(1, following[:, place : place + 1]).sum())
    return _Reading(torch.cat(choices), total)


def _steps(loaded: LoadedModel, windows: list[list[int]], blocks_each: int) -> Iterator[Tensor]:
    """Logits ``[windows, vocabulary]`` after each token from the last given one on, but for the last of all."""
    sequences = [
        Sequence(
            key=-1 - number,
            ids=window[:GIVEN_TOKENS],
            prompt_tokens=GIVEN_TOKENS,
            sampling=SamplingSpec(),
            seed=0,
            arrived_s=0.0,
            blocks=list(range(number * blocks_each, (number + 1) * blocks_each)),
        )
        for number, window in enumerate(windows)
    ]
    yield _run(loaded, [Chunk(sequence, 0, GIVEN_TOKENS) for sequence in sequences])
    for position in range(GIVEN_TOKENS, WINDOW_TOKENS - 1):
        for sequence, window in zip(sequences, windows, strict=True):
            sequence.ids.append(window[position])
        yield _run(loaded, [Chunk(sequence, position, 1) for sequence in sequences])
    for sequence in sequences:
        loaded.backend.forget(sequence.key)


def _run(loaded: LoadedModel, chunks: list[Chunk]) -> Tensor:
    logits = loaded.backend.logits(chunks)
    assert logits is not None  # every chunk ends where its sequence does
    return logits
