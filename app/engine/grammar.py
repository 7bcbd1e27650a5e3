"""Replies that must satisfy a JSON schema: which tokens may follow, worked out by llguidance."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from tokenizers import Tokenizer

from app.errors import InvalidRequest, StageError

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

MAX_SCHEMA_CHARS = 64 * 1024
MAX_KEPT = 64
"""Compiled schemas that are kept for the next request with the same one."""

_ANY_OBJECT = '{"type":"object"}'

_STYLE: JsonCompileOptions = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
"""One space where models write one, and no other white space: free to, small models indent until they are cut off."""

_MAX_LCM = 10_000
_MAX_SUM = 50_000
"""Of the divisors in ``multipleOf``: compiling one takes time in proportion to it, 10 s for a million."""

_HARD = {"pattern", "patternProperties", "allOf"}
"""Keywords through which a short schema can take for ever: whether two patterns have a text in common."""

_TRIAL_S = 2
_TRIAL = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({_TRIAL_S}, {_TRIAL_S}))
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from llguidance import LLMatcher
LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema(sys.stdin.read(), overrides={_STYLE!r}))
"""


class Constraint(Protocol):
    """What one reply must keep to. Its state follows from the reply's tokens alone, so it survives preemption."""

    def allowed(self, reply: Sequence[int]) -> bytes:
        """Bit i % 8 of byte i // 8 says whether token i may follow ``reply``; StageError if that cannot be said."""
        ...

    def is_finished(self, reply: Sequence[int]) -> bool:
        """Whether ``reply`` satisfies the constraint and nothing may follow it."""
        ...


class Grammars:
    """Compiles schemas for one model's tokens. Safe to use from several threads."""

    def __init__(self, tokenizer: Tokenizer, eos_ids: frozenset[int]) -> None:
        """Takes a quarter of a second for 50,000 tokens, without letting other threads run: make it at start.

        Raises ValueError if llguidance cannot work with the tokeniser.
        """
        tokens = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
        self._tokens = LLTokenizer(
            tokenizer.to_str(),
            n_vocab=tokens,
            eos_token=sorted(token for token in eos_ids if token < tokens) or None,
            slices=LLTokenizer.json_slices(),
        )
        # Bounds for each mask (some ms); and an error must not repeat the schema or the reply.
        self._limits = LLParserLimits(step_lexer_fuel=100_000, verbose_errors=False)
        self._kept: OrderedDict[str, LLMatcher] = OrderedDict()
        self._lock = threading.Lock()

    def json(self, schema: str) -> Constraint:
        """A constraint for one reply; raises InvalidRequest naming what is wrong with the schema, or not supported.

        Takes milliseconds for most schemas, and at most some seconds; other threads run meanwhile.
        """
        with self._lock:
            matcher = self._kept.get(schema)
            if matcher is not None:
                self._kept.move_to_end(schema)
        if matcher is None:
            matcher = self._compile(schema)
            with self._lock:
                self._kept[schema] = matcher
                if len(self._kept) > MAX_KEPT:
                    self._kept.popitem(last=False)
        return _Follower(matcher.deep_copy())

    def _compile(self, schema: str) -> LLMatcher:
        schema = _ANY_OBJECT if _checked(schema) == {} else schema
        try:
            grammar = LLMatcher.grammar_from_json_schema(schema, overrides=_STYLE)
        except ValueError as error:
            raise InvalidRequest(f"json_schema cannot be used: {error}") from error
        matcher = LLMatcher(self._tokens, grammar, log_level=0, limits=self._limits)
        if matcher.is_error():
            raise InvalidRequest(f"json_schema cannot be used: {matcher.get_error()[:500]}")
        # What no text can begin to satisfy, such as a schema that only refers to itself, shows in the first mask.
        first = matcher.deep_copy()
        first.compute_bitmask()
        if first.is_error():
            why = first.get_error().partition("\n")[0][:500]
            raise InvalidRequest(f"json_schema cannot be used: no reply can begin with what it asks for ({why})")
        return matcher


class _Follower:
    """Keeps to what one grammar allows. Reads each token of the reply once."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher
        self._read = 0

    def allowed(self, reply: Sequence[int]) -> bytes:
        self._follow(reply)
        mask = self._matcher.compute_bitmask()
        if self._matcher.is_error():
            raise StageError(f"the reply cannot be kept to its json_schema: {self._matcher.get_error()[:500]}")
        return mask

    def is_finished(self, reply: Sequence[int]) -> bool:
        self._follow(reply)
        return self._matcher.is_stopped() and not self._matcher.is_error()

    def _follow(self, reply: Sequence[int]) -> None:
        if len(reply) > self._read:
            self._matcher.consume_tokens(list(reply[self._read :]))
            self._read = len(reply)


def _checked(schema: str) -> dict[str, Any]:
    """The schema as an object; raises InvalidRequest for what is none, or might take too long to compile."""
    if len(schema) > MAX_SCHEMA_CHARS:
        raise InvalidRequest(f"json_schema has {len(schema)} characters: the limit is {MAX_SCHEMA_CHARS}")
    try:
        parsed = msgspec.json.decode(schema)
        if not isinstance(parsed, dict):
            raise InvalidRequest("json_schema must be a JSON object")
        entries = list(_entries(parsed))
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"json_schema is not JSON, or too deep: {error}") from error
    divisors = [_digits(value) for key, value in entries if key == "multipleOf" and isinstance(value, int | float)]
    if math.lcm(*divisors) > _MAX_LCM or sum(divisors) > _MAX_SUM:
        raise InvalidRequest(f"json_schema: multipleOf may be used with divisors that have a multiple up to {_MAX_LCM}")
    if any(key in _HARD for key, _ in entries):
        _try_elsewhere(schema)
    return parsed


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value, at any depth."""
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            yield from _entries(item)
    if isinstance(value, dict):
        yield from value.items()


def _digits(number: float) -> int:
    """The number without its power of ten: 0.25 gives 25."""
    return int("".join(map(str, Decimal(str(number)).normalize().as_tuple().digits))) or 1


def _try_elsewhere(schema: str) -> None:
    """Work a schema out in a process that can be ended, as no thread can be; raises InvalidRequest if it must be."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _TRIAL], input=schema.encode(), capture_output=True, timeout=10 * _TRIAL_S
        )
    except subprocess.TimeoutExpired:
        done = None
    if done is None or done.returncode < 0:
        raise InvalidRequest(
            f"json_schema took more than {_TRIAL_S} s or 1 GiB to work out: simplify its patterns, or join fewer in allOf"
        )
