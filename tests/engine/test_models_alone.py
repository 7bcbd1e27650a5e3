"""The runner for models that cannot share a packed row: their own cache, kept from step to step and turn to turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from app.engine.loader import LoadedModel, load
from app.engine.messages import SamplingSpec
from app.engine.options import LoadOptions
from app.engine.sequence import Chunk, Sequence
from app.engine.single import Cost, Keeping, SingleRunner, examine
from tests.kit.architectures import ALONE, tiny_model
from tests.kit.tiny_models import save_tiny
from tests.kit.tiny_world import TinyWorld, greedy

MAMBA = {"state_size": 8}
RECURRENT_GEMMA = {"block_types": ["recurrent", "attention"]}
PROMPTS = ["hi", "a longer question that fills more than one block of the pool, surely", "three"]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("model_type", "changes", "keeping"),
    [
        ("stablelm", ALONE["stablelm"], Keeping.CHUNKS),
        ("lfm2", ALONE["lfm2"], Keeping.CHUNKS),
        ("mamba", MAMBA, Keeping.TOKENS),
        ("recurrent_gemma", RECURRENT_GEMMA, Keeping.NOTHING),
    ],
)
def test_replies_side_by_side_equal_generate_whatever_the_cache_can_do(
    tmp_path: Path, model_type: str, changes: dict[str, Any], keeping: Keeping
) -> None:
    assert examine(tiny_model(model_type, **changes), "cpu", 1e-3)[0] is keeping
    loaded = _load(tmp_path, model_type, changes)
    world = TinyWorld(loaded)
    replies = {prompt: world.ask(prompt, session=prompt, ignore_eos=True) for prompt in PROMPTS}
    world.run()
    model = tiny_model(model_type, **changes)
    for prompt, reply in replies.items():
        ids, said = world.said(prompt, reply)
        assert ids == world.prompt_ids(prompt)
        assert said == greedy(model, ids, said)


def test_a_conversation_takes_up_its_cache_and_says_what_a_fresh_run_says(tmp_path: Path) -> None:
    world = TinyWorld(_load(tmp_path, "lfm2", ALONE["lfm2"]))
    model = tiny_model("lfm2", **ALONE["lfm2"])
    turns = ["what is it?"]
    known = 0
    for question in ("and then?", "why?", "really?", ""):
        reply = world.answered(*turns, session="s", ignore_eos=True)
        ids, said = world.said("s", reply)
        assert said == greedy(model, ids, said)
        assert reply.done.counts.cached_tokens == known
        known = len(ids) + len(said) - 1  # the last token was drawn, and never run
        turns += [reply.text, question]


def test_a_state_that_moved_on_past_a_cut_reply_is_not_taken_up_but_keys_are_cut_back(tmp_path: Path) -> None:
    for model_type, can_cut in (("lfm2", False), ("stablelm", True)):
        world = TinyWorld(_load(tmp_path / model_type, model_type, ALONE[model_type]))
        first = world.answered("tell me", session="s", ignore_eos=True)
        before, _ = world.said("s", first)
        after = world.answered("tell me", first.text[:2], "wait", session="s", ignore_eos=True)
        ids, said = world.said("s", after)
        assert said == greedy(tiny_model(model_type, **ALONE[model_type]), ids, said)
        cached = after.done.counts.cached_tokens
        assert cached >= len(before) if can_cut else cached == 0


def test_a_cancelled_reply_ends_within_a_step_and_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    loaded = _load(tmp_path, "lfm2", ALONE["lfm2"])
    world = TinyWorld(loaded)
    doomed = world.ask("a question that is given up", session="d", ignore_eos=True, max_tokens=200)
    kept = [world.ask(prompt, ignore_eos=True) for prompt in PROMPTS]
    for _ in range(6):
        world.engine.step()
    world.engine.cancel(doomed.key)
    world.engine.step()
    assert doomed.done.reason == "cancelled"
    world.run()
    alone = TinyWorld(_load(tmp_path / "alone", "lfm2", ALONE["lfm2"]))
    assert [reply.text for reply in kept] == [alone.answered(prompt, ignore_eos=True).text for prompt in PROMPTS]


def test_a_sequence_that_fails_takes_nobody_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = TinyWorld(_load(tmp_path, "lfm2", ALONE["lfm2"]))
    poison = world.loaded.prompts.vocabulary.encode("Z", is_template=False)[0]
    forward = SingleRunner._forward

    def failing(self: SingleRunner, ids: list[int], held: Any) -> torch.Tensor:
        if set(poison) & set(ids):
            raise RuntimeError("no such thing")
        return forward(self, ids, held)

    monkeypatch.setattr(SingleRunner, "_forward", failing)
    kept = {prompt: world.ask(prompt, session=prompt, ignore_eos=True) for prompt in PROMPTS[:2]}
    world.engine.step()
    lost = world.ask("ZZZ", ignore_eos=True)
    kept[PROMPTS[2]] = world.ask(PROMPTS[2], session=PROMPTS[2], ignore_eos=True)
    world.run()
    assert "no such thing" in lost.failed.message
    model = tiny_model("lfm2", **ALONE["lfm2"])
    for prompt, reply in kept.items():
        ids, said = world.said(prompt, reply)
        assert len(said) == 24
        assert said == greedy(model, ids, said)


def test_a_long_prompt_lets_the_others_speak_between_its_chunks(tmp_path: Path) -> None:
    world = TinyWorld(_load(tmp_path, "lfm2", ALONE["lfm2"]), step_tokens=64)
    talking = world.ask("hi", ignore_eos=True, max_tokens=40)
    world.engine.step()
    long = world.ask("word " * 60, ignore_eos=True)
    said = 0
    while not long.events:
        before = talking.tokens
        world.engine.step()
        said += talking.tokens > before
    assert said >= 4


def test_preemption_changes_nothing_that_is_said(tmp_path: Path) -> None:
    roomy = TinyWorld(_load(tmp_path / "roomy", "lfm2", ALONE["lfm2"]))
    tight = TinyWorld(_load(tmp_path / "tight", "lfm2", ALONE["lfm2"]), blocks=7)
    replies = []
    for world in (roomy, tight):
        listeners = [world.ask(prompt, ignore_eos=True, max_tokens=40) for prompt in PROMPTS]
        world.run()
        replies.append([listener.text for listener in listeners])
    assert tight.engine.figures().preemptions > 0
    assert replies[0] == replies[1]


def test_idle_caches_leave_when_memory_is_full_and_the_oldest_goes_first() -> None:
    runner = _runner(budget_tokens=100)
    for key, session in enumerate(("a", "b", "c")):
        _prefill(runner, key, session, [key] * 40)
        runner.forget(key)
    assert runner.evictions == 1
    assert runner.held_bytes <= 100
    # The oldest has to start anew, the youngest goes on.
    assert _prefill(runner, 10, "a", [0] * 40 + [7]).cached_tokens is None
    assert _prefill(runner, 11, "c", [2] * 40 + [7]).cached_tokens == 40


def test_a_sequence_whose_cache_is_gone_is_computed_again() -> None:
    runner = _runner(budget_tokens=1000)
    sequence = _prefill(runner, 1, None, list(range(40)))
    sequence.ids.append(5)
    whole = _runner(budget_tokens=1000).run([Chunk(sequence, 0, 41)])
    runner._running.clear()
    again = runner.run([Chunk(sequence, 40, 1)])
    assert whole is not None
    assert again is not None
    torch.testing.assert_close(again, whole)


def test_nobody_takes_up_the_cache_of_another_session_or_tenant() -> None:
    runner = _runner(budget_tokens=1000)
    _prefill(runner, 1, "s", list(range(40)), salt=b"one")
    runner.forget(1)
    assert _prefill(runner, 2, "t", list(range(45)), salt=b"one").cached_tokens is None
    assert _prefill(runner, 3, "s", list(range(45)), salt=b"two").cached_tokens is None
    assert _prefill(runner, 4, "s", list(range(45)), salt=b"one").cached_tokens == 40


def _runner(budget_tokens: int) -> SingleRunner:
    return SingleRunner(tiny_model("lfm2", **ALONE["lfm2"]), "cpu", Keeping.CHUNKS, Cost(0, 1), budget_tokens)


def _prefill(runner: SingleRunner, key: int, session: str | None, ids: list[int], salt: bytes = b"") -> Sequence:
    named = None if session is None else (salt.decode(), session)
    sequence = Sequence(key, list(ids), len(ids), SamplingSpec(), 0, 0.0, salt=salt, session=named)
    runner.run([Chunk(sequence, 0, len(ids))])
    return sequence


def _load(folder: Path, model_type: str, changes: dict[str, Any]) -> LoadedModel:
    loaded = load(LoadOptions(save_tiny(folder, model_type, **changes), quantization="none", kv_cache_mb=4))
    assert loaded.runner == "single"
    return loaded
