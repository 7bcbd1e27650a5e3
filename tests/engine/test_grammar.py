from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from app.engine.grammar import MAX_KEPT, MAX_SCHEMA_CHARS, Constraint, Grammars
from app.engine.messages import SamplingSpec
from app.engine.sampler import Sampler
from app.engine.sequence import Sequence
from app.errors import InvalidRequest, StageError

EOS = 2
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["new", "vip", "旧"]}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def tokenizer(smollm2: Path) -> Tokenizer:
    return Tokenizer.from_file(str(smollm2 / "tokenizer.json"))


@pytest.fixture(scope="module")
def grammars(tokenizer: Tokenizer) -> Grammars:
    return Grammars(tokenizer, frozenset({EOS}))


def allowed(constraint: Constraint, reply: list[int]) -> set[int]:
    bits = np.unpackbits(np.frombuffer(constraint.allowed(reply), np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


def written(
    constraint: Constraint, logits: Callable[[int], torch.Tensor], spec: SamplingSpec, most: int = 100
) -> tuple[list[int], bool]:
    """A reply drawn from the given logits, and whether the grammar ended it."""
    sampler = Sampler()
    sequence = Sequence(1, [1], 1, spec, seed=3, arrived_s=0.0, constraint=constraint)
    for position in range(most):
        (draw,) = sampler.draw(logits(position), [sequence])
        assert not draw.fault
        if draw.token == EOS:
            return sequence.reply, True
        sequence.ids.append(draw.token)
        if constraint.is_finished(sequence.reply):
            return sequence.reply, True
    return sequence.reply, False


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_whatever_the_model_wants_the_reply_satisfies_the_schema(
    seed: int, grammars: Grammars, tokenizer: Tokenizer
) -> None:
    noise = torch.randn(1, 49152, generator=torch.Generator().manual_seed(seed)) * 5.0

    def logits(position: int) -> torch.Tensor:
        shifted = noise.roll(position * 7919, -1)
        shifted[0, tokenizer.token_to_id('"')] += 25.0  # so that strings end
        return shifted

    ids, ended = written(grammars.json(json.dumps(PERSON)), logits, SamplingSpec(temperature=1.0, top_p=0.9))
    text = tokenizer.decode(ids)
    if not ended:
        assert text.startswith('{"name": "')
        return
    person = json.loads(text)
    assert list(person) == ["name", "age", "tags"]
    assert isinstance(person["name"], str)
    assert 0 <= person["age"] <= 150
    assert len(person["tags"]) <= 3
    assert set(person["tags"]) <= {"new", "vip", "旧"}


def test_a_finished_object_ends_the_reply_and_a_number_waits_for_the_end_token(
    grammars: Grammars, tokenizer: Tokenizer
) -> None:
    whole = tokenizer.encode('{"a": 1}').ids
    constraint = grammars.json(
        '{"type":"object","properties":{"a":{"const":1}},"required":["a"],"additionalProperties":false}'
    )
    for length in range(len(whole)):
        assert whole[length] in allowed(constraint, whole[:length])
        assert EOS not in allowed(constraint, whole[:length])
        assert not constraint.is_finished(whole[:length])
    assert constraint.is_finished(whole)
    assert allowed(constraint, whole) == {EOS}
    number = grammars.json('{"type":"integer"}')
    one = tokenizer.encode("1").ids
    assert not number.is_finished(one)
    assert {EOS, *one} <= allowed(number, one)
    assert number.is_finished([*one, EOS])  # with ignore_eos the end token is part of the reply


def test_any_object_will_do_where_the_schema_is_empty(grammars: Grammars, tokenizer: Tokenizer) -> None:
    constraint = grammars.json("{}")
    first = {tokenizer.decode([token]).strip() for token in allowed(constraint, [])}
    assert first
    assert all(text.startswith("{") for text in first)
    reply = tokenizer.encode('{"any": ["thing", {"at": null}], "all": 1.5e3}').ids
    assert all(token in allowed(constraint, reply[:at]) for at, token in enumerate(reply))
    assert constraint.is_finished(reply)


def test_control_tokens_are_never_part_of_a_text(grammars: Grammars, tokenizer: Tokenizer) -> None:
    constraint = grammars.json('{"type":"string"}')
    inside = allowed(constraint, tokenizer.encode('"').ids)
    assert len(inside) > 30_000
    assert not inside & {token for token, added in tokenizer.get_added_tokens_decoder().items() if added.special}


@settings(max_examples=20, deadline=None)
@given(cut=st.integers(0, 30))
def test_a_replayed_reply_leads_to_the_same_state(cut: int, grammars: Grammars, tokenizer: Tokenizer) -> None:
    reply = tokenizer.encode('{"name": "Ada Lovelace 😀", "age": 36, "tags": ["vip", "旧"]}').ids
    reply = reply[: min(cut, len(reply) - 1)]
    followed = grammars.json(json.dumps(PERSON))
    for length in range(len(reply)):
        followed.allowed(reply[:length])
    assert followed.allowed(reply) == grammars.json(json.dumps(PERSON)).allowed(reply)
    assert followed.allowed(reply) == followed.allowed(reply)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "must be a JSON object"),
        ("true", "must be a JSON object"),
        ('{"type":"nonsense"}', "nonsense"),
        ('{"$ref":"#"}', "no reply can begin"),
        ('{"$ref":"#/definitions/gone"}', "/definitions/gone"),
        ('{"$ref":"http://localhost/schema.json"}', "http://localhost/schema.json"),
        ('{"type":"object","propertyNames":{"minLength":3}}', "propertyNames"),
        ('{"type":"string","pattern":"(?=a)b"}', "look-ahead"),
        ('{"type":"integer","multipleOf":1000003}', "multipleOf"),
        ('{"allOf":[{"multipleOf":997},{"multipleOf":0.991}]}', "multipleOf"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "too deep"),
        ('{"title":"' + "x" * MAX_SCHEMA_CHARS + '"}', str(MAX_SCHEMA_CHARS)),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_by_what_is_wrong_with_it(
    schema: str, problem: str, grammars: Grammars
) -> None:
    with pytest.raises(InvalidRequest, match="json_schema") as refusal:
        grammars.json(schema)
    assert problem in str(refusal.value)
    assert len(str(refusal.value)) < 700


def test_a_schema_that_would_take_for_ever_is_given_up_and_others_go_on(grammars: Grammars) -> None:
    endless = json.dumps({"allOf": [{"type": "string", "pattern": f"(a|b)*a(a|b){{{3 * n}}}$"} for n in range(20)]})
    with ThreadPoolExecutor(1) as elsewhere:
        refused = elsewhere.submit(grammars.json, endless)
        done = 0
        while not refused.done():
            grammars.json(json.dumps({"type": "string", "maxLength": 5 + done % 3}))
            done += 1
            time.sleep(0.01)
    assert done > 3
    with pytest.raises(InvalidRequest, match="took more than"):
        refused.result()


def test_patterns_within_reason_are_kept_to(grammars: Grammars, tokenizer: Tokenizer) -> None:
    constraint = grammars.json('{"type":"string","pattern":"^[A-Z]{2}-[0-9]{3}$"}')
    ids, ended = written(constraint, lambda position: torch.zeros(1, 49152), SamplingSpec())
    assert ended
    text = json.loads(tokenizer.decode(ids))
    assert len(text) == 6
    assert text[:2].isupper()
    assert text[3:].isdigit()


def test_a_reply_that_left_its_grammar_is_an_error_of_its_own(grammars: Grammars, tokenizer: Tokenizer) -> None:
    constraint = grammars.json("{}")
    with pytest.raises(StageError, match="json_schema") as error:
        constraint.allowed(tokenizer.encode("a secret").ids)
    assert "secret" not in str(error.value)
    assert not constraint.is_finished(tokenizer.encode("a secret").ids)


def test_only_so_many_schemas_are_kept_and_replies_do_not_share_a_state(
    grammars: Grammars, tokenizer: Tokenizer
) -> None:
    for number in range(MAX_KEPT + 10):
        grammars.json(json.dumps({"const": number}))
    assert len(grammars._kept) == MAX_KEPT
    first, second = grammars.json("{}"), grammars.json("{}")
    first.allowed(tokenizer.encode('{"a').ids)
    assert allowed(second, []) == allowed(grammars.json("{}"), [])


def test_schemas_can_be_compiled_from_many_threads(grammars: Grammars) -> None:
    barrier = threading.Barrier(4)

    def compile_some(thread: int) -> list[bytes]:
        barrier.wait()
        return [grammars.json(json.dumps({"const": number})).allowed([]) for number in range(thread % 2, 40, 2)]

    with ThreadPoolExecutor(4) as threads:
        masks = list(threads.map(compile_some, range(4)))
    assert masks[0] == masks[2]
    assert masks[1] == masks[3]
