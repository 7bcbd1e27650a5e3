from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.main import main
from tests.kit.tiny_models import save_tiny


def test_quality_is_printed_as_json_for_each_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = save_tiny(tmp_path / "tiny", "llama")
    code = main(["--llm", str(folder), "bench", "quality", "--modes", "none,bf16", "--tokens", "300", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert code == 0
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
