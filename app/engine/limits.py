"""What a request may ask for."""

from __future__ import annotations

from app.engine.messages import SamplingSpec
from app.errors import InvalidRequest

MOST_LOGPROBS = 20
_MOST_STOPS = 64
_LONGEST_STOP = 1000


def check_sampling(spec: SamplingSpec, vocabulary: int) -> None:
    """Raises InvalidRequest that names the first key out of range; not-a-number is out of every range.

    ``vocabulary`` is the number of token ids.
    """
    if spec.max_tokens is not None and spec.max_tokens < 1:
        raise _wrong("max_tokens", f"is {spec.max_tokens}: it must be at least 1")
    for name, value, low, high in (
        ("temperature", spec.temperature, 0.0, 100.0),
        ("top_k", spec.top_k, 0, 1 << 31),
        ("top_p", spec.top_p, 0.0, 1.0),
        ("min_p", spec.min_p, 0.0, 1.0),
        ("presence_penalty", spec.presence_penalty, -2.0, 2.0),
        ("frequency_penalty", spec.frequency_penalty, -2.0, 2.0),
        ("logprobs", spec.logprobs or 0, 0, MOST_LOGPROBS),
    ):
        if not low <= value <= high:
            raise _wrong(name, f"is {value}: it must be between {low:g} and {high:g}")
    if not 0.0 < spec.repetition_penalty < float("inf"):
        raise _wrong("repetition_penalty", f"is {spec.repetition_penalty}: it must be above 0")
    if len(spec.stop) > _MOST_STOPS:
        raise _wrong("stop", f"has {len(spec.stop)} strings: the limit is {_MOST_STOPS}")
    longest = max((len(stop) for stop in spec.stop), default=0)
    if longest > _LONGEST_STOP:
        raise _wrong("stop", f"has a string of {longest} characters: the limit is {_LONGEST_STOP}")
    for token, bias in spec.logit_bias.items():
        if not 0 <= token < vocabulary:
            raise _wrong("logit_bias", f"names token {token}: token ids go from 0 to {vocabulary - 1}")
        if not -100.0 <= bias <= 100.0:
            raise _wrong("logit_bias", f"has {bias} for token {token}: it must be between -100 and 100")


def _wrong(param: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"{param} {what}", param=param)
