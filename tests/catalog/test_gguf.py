"""GGUF files of users: converted once, with the template they carry, or refused with a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from app.catalog import model_path
from app.catalog.gguf import convert
from app.catalog.gguf_header import is_cut_short
from app.errors import ModelError
from tests.kit.engine_world import CHAT_TEMPLATE
from tests.kit.tiny_gguf import save_tiny_gguf
from tests.kit.tiny_models import save_tiny
from tests.kit.tiny_world import greedy


def test_a_file_beside_another_models_folder_is_converted_as_it_is_and_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = tmp_path / "downloads"
    save_tiny(shelf, "llama", template="the neighbour's template")
    for weights in shelf.glob("*.safetensors"):
        weights.unlink()
    model = save_tiny_gguf(shelf / "tiny.gguf", CHAT_TEMPLATE)
    caplog.set_level("INFO")
    folder = model_path(shelf / "tiny.gguf", tmp_path / "store", kind="llm")
    assert "converting_gguf" in caplog.messages
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.chat_template == CHAT_TEMPLATE
    converted = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    assert converted.config.model_type == "qwen3"
    assert tokenizer.convert_tokens_to_ids("<|im_end|>") in converted.generation_config.eos_token_id
    _says_the_same(converted, model.to(torch.bfloat16), tokenizer("<|im_start|>user\nhi").input_ids)
    made = (folder / "config.json").stat().st_mtime_ns
    assert model_path(shelf / "tiny.gguf", tmp_path / "store", kind="llm") == folder
    assert (folder / "config.json").stat().st_mtime_ns == made


def test_what_is_no_gguf_is_named(tmp_path: Path) -> None:
    page = tmp_path / "model.gguf"
    page.write_text("<html>not found</html>")
    with pytest.raises(ModelError, match=r"model\.gguf is not a GGUF file"):
        convert(page, tmp_path / "built")


def test_one_part_of_a_split_file_is_refused_with_the_remedy(tmp_path: Path) -> None:
    part = tmp_path / "big-00001-of-00003.gguf"
    part.write_bytes(b"GGUF" + bytes(64))
    with pytest.raises(ModelError, match="merge"):
        convert(part, tmp_path / "built")


def test_a_file_that_cannot_be_converted_is_named_with_a_way_out(tmp_path: Path) -> None:
    strange = tmp_path / "strange.gguf"
    save_tiny_gguf(strange, CHAT_TEMPLATE)
    strange.write_bytes(strange.read_bytes().replace(b"qwen3", b"qwenX"))
    (tmp_path / "staging").mkdir()
    with pytest.raises(ModelError, match=r'strange\.gguf.*safetensors.*backend = "openai"'):
        convert(strange, tmp_path / "staging" / "built")


def test_a_file_that_was_cut_short_is_told_from_a_whole_one_wherever_it_was_cut(tmp_path: Path) -> None:
    whole = tmp_path / "whole.gguf"
    save_tiny_gguf(whole, CHAT_TEMPLATE)
    assert not is_cut_short(whole)
    content = whole.read_bytes()
    cut = tmp_path / "cut.gguf"
    for size in (5, 20, 100, 1000, 5000, len(content) // 2, len(content) - 64):
        cut.write_bytes(content[:size])
        with pytest.raises(ModelError, match=r"cut\.gguf is damaged or cut short.*again"):
            convert(cut, tmp_path / "built")


def _says_the_same(converted: torch.nn.Module, original: torch.nn.Module, ids: list[int]) -> None:
    said: list[int] = []
    for _ in range(16):
        said.append(greedy(original, ids, [*said, 0])[-1])
    assert greedy(converted, ids, said) == said
