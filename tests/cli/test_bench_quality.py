from __future__ import annotations

import io
import json
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from app.cli.bench import quality
from app.cli.main import main
from app.engine.quality import Quality
from tests.kit.tiny_models import save_tiny


def test_quality_is_printed_as_json_for_each_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = save_tiny(tmp_path / "tiny", "llama")
    code = main(["--llm", str(folder), "bench", "quality", "--modes", "none,bf16", "--tokens", "300", "--json"])
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert code == 0
    assert told.err == "", "no bar where there is no terminal"
    assert [mode["quantization"] for mode in found] == ["none", "bf16"]
    assert found[0]["agreement"] == 1.0
    assert found[1]["agreement"] > 0.5
    assert all(mode["tokens"] == 192 for mode in found)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--modes", "none,int3"], "'int3'; there are none, bf16, int8"),
        (["--text", "/nowhere/book.txt"], "/nowhere/book.txt cannot be read"),
    ],
)
def test_a_wrong_argument_is_told_before_anything_is_loaded(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "quality", *arguments]) == 2
    assert why in capsys.readouterr().err


def test_too_few_tokens_are_answered_with_the_smallest_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save_tiny(tmp_path / "tiny", "llama")
    assert main(["bench", "quality", "--llm", str(folder), "--tokens", "5"]) == 2
    assert "--tokens 5 is too little to read: give at least 256" in capsys.readouterr().err


def test_the_bar_tells_which_mode_is_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(
        quality, "Console", partial(Console, file=out, force_terminal=True, width=120, color_system=None)
    )
    with quality._progress(("none", "int8")) as on_mode:
        on_mode(Quality("none", "lean", 192, 12.345, 1.0))
        on_mode(Quality("int8", "native", 192, 12.5, 0.99))
    shown = (
        "reading in none",
        "0/2",
        "none: perplexity 12.35; reading in int8",
        "1/2",
        "int8: perplexity 12.50",
        "2/2",
    )
    assert [part for part in shown if part not in out.getvalue()] == []
