"""Two lines of the settings put another model in: a folder of another architecture, a GGUF file."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config.load import load_settings
from app.llm.base import ChatMessage, Finished, GenerateRequest, Sampling
from app.wiring import build_language_model
from tests.kit.architectures import ALONE
from tests.kit.engine_world import CHAT_TEMPLATE
from tests.kit.tiny_gguf import save_tiny_gguf
from tests.kit.tiny_models import save_tiny


def _alone(folder: Path) -> Path:
    return save_tiny(folder / "lfm", "lfm2", **ALONE["lfm2"])


def _gguf(folder: Path) -> Path:
    save_tiny_gguf(folder / "tiny.gguf", CHAT_TEMPLATE)
    return folder / "tiny.gguf"


@pytest.mark.parametrize(("make", "runners"), [(_alone, ("single",)), (_gguf, ("native", "lean"))])
async def test_two_lines_put_another_model_in(tmp_path: Path, make: object, runners: tuple[str, ...]) -> None:
    assert callable(make)
    config = tmp_path / "config.toml"
    config.write_text(
        f'[llm]\nbackend = "local"\nmodel = "{make(tmp_path)}"\nfirst_token_timeout_s = 60.0\n'
        f'[runtime]\nmodel_store = "{tmp_path / "store"}"\n'
    )
    async with build_language_model(load_settings(config)) as thinking:
        (report,) = thinking.reports
        assert any(f"runner {name}" in report.detail for name in runners), report.detail
        asked = GenerateRequest(
            (ChatMessage("user", "hello"),), Sampling(max_tokens=8, ignore_eos=True), session_id="s"
        )
        *_, end = [event async for event in thinking.llm.generate(asked)]
        assert isinstance(end, Finished)
        assert end.usage.completion_tokens == 8
