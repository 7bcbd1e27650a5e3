"""The side-by-side comparison with contenders that are small programs: started, put to sleep, asked, and ended."""

from __future__ import annotations

import asyncio
import io
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from benchmarks import contenders, llm
from benchmarks.contenders import Contender, named
from benchmarks.llm import Cell, cells, compare, order

STEADY = """
import time
from benchmarks.measure import Reply
from benchmarks.peers.inside import Engine, serve

class Steady(Engine):
    def hold(self, conversations):
        print("libraries may print")
        now = time.perf_counter()
        return [
            [Reply(now, (now + 0.1, now + 0.2), now + 0.2, turn.reply_tokens, turn.reply_tokens) for turn in one.turns]
            for one in conversations
        ]

serve(Steady)
"""
COUNTING = """
from benchmarks.peers.inside import ContinuousEngine, Progress, serve

class Counting(ContinuousEngine):
    def __init__(self):
        self.left = {}

    def begin(self, key, messages, reply_tokens):
        assert [message["role"] for message in messages][:2] == ["system", "user"]
        self.left[key] = reply_tokens
        return len(messages)

    def advance(self):
        key = min(self.left)
        self.left[key] -= 1
        if self.left[key]:
            return [Progress(key, 1)]
        del self.left[key]
        return [Progress(key, 1, "said")]

serve(Counting)
"""
BROKEN = STEADY.replace("now = time.perf_counter()", "raise MemoryError('too small a machine')")


@pytest.fixture(autouse=True)
def _logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders, "LOGS", tmp_path)


def contender(name: str, program: str, needs: Path = Path(sys.executable)) -> Contender:
    return Contender(
        name=name,
        title=name.title(),
        how="in process",
        needs=needs,
        script=f"{name}.sh",
        command=lambda port: [sys.executable, "-c", textwrap.dedent(program)],
        version=lambda: "1",
    )


def silent() -> Console:
    return Console(file=io.StringIO())


async def test_who_is_missing_or_fails_is_reported_and_the_others_go_on() -> None:
    taking_part = [
        contender("missing", STEADY, Path("/nowhere/python")),
        contender("dying", "raise SystemExit(3)"),
        contender("broken", BROKEN),
        contender("steady", STEADY),
        contender("counting", COUNTING),
    ]
    result = await compare(taking_part, [Cell("w1", 4), Cell("w2", 2)], 2, silent())
    assert result["failures"]["missing"] == "not installed: run benchmarks/peers/missing.sh"
    assert "it ended" in result["failures"]["dying"]
    assert "too small a machine" in result["failures"]["broken"]
    figures = {(cell["contender"], cell["workload"]): cell["figures"] for cell in result["cells"]}
    assert set(figures) == {(name, workload) for name in ("steady", "counting") for workload in ("w1", "w2")}
    assert figures["steady", "w1"]["tokens"] == (256.0, 256.0, 256.0)
    assert figures["steady", "w1"]["tok_s"][1] == pytest.approx(256 / 0.2, rel=0.01)
    assert figures["counting", "w2"]["tokens"][1] == 2 * 6 * 32
    assert figures["counting", "w2"]["wrong_length"][1] == 0
    assert figures["steady", "w1"]["peak_mb"][1] > 1
    assert not psutil.Process().children(recursive=True)


async def test_a_contender_sleeps_while_others_are_measured() -> None:
    running = await contenders.start(contender("steady", STEADY))
    try:
        await running.measured("w1", 1, "seed")
        assert running.group.process is not None
        process = psutil.Process(running.group.process.pid)
        async with asyncio.timeout(5.0):
            while process.status() != psutil.STATUS_STOPPED:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await running.measured("w1", 1, "seed"))["tokens"] == 64
    finally:
        await running.group.stop()


def test_each_round_begins_with_another_contender() -> None:
    names = [name for _, _, name in order(["a", "b", "c"], [Cell("w1", 1)], 3)]  # type: ignore[list-item]
    assert names == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]


def test_the_cells_are_w1_at_each_concurrency_and_one_w2() -> None:
    assert cells([1, 16], ["w1", "w2"], 8) == [Cell("w1", 1), Cell("w1", 16), Cell("w2", 8)]
    assert cells([1, 16], ["w2", "turns"], 8) == [Cell("w2", 8), Cell("turns", 1)]


def test_contenders_are_named_by_the_beginning_of_their_names() -> None:
    assert [one.name for one in named(["ours", "llama.cpp"])] == ["parley", "llama.cpp-bf16", "llama.cpp-q4_0"]
    with pytest.raises(ValueError, match="no contender is called 'ollama'; there are parley, "):
        named(["ollama"])


def test_the_help_has_examples(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["llm", "--help"])
    with pytest.raises(SystemExit):
        llm.main()
    assert "--peers ours,llama.cpp" in capsys.readouterr().out
