"""A bfloat16 safetensors copy of a GGUF file, made once.

Dequantising takes 15 s and more at each start; the copy loads in under one.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from app.catalog.gguf_header import is_cut_short
from app.catalog.store import Manifest, Store, folder_specs, remove_tree
from app.errors import ModelError
from app.telemetry.log import log_event

_log = logging.getLogger("parley.models")

# Bytes of the copy for each byte of a 4-bit file, generously.
GROWTH = 4
_MAGIC = b"GGUF"
_PART = re.compile(r"-\d{5}-of-\d{5}\.gguf$")


def convert(gguf: Path, built: Path) -> None:
    """Write weights, configs, tokenizer and chat template of ``gguf`` into ``built``; raises ModelError.

    Runs in a child process, so that torch and the weights are gone from memory afterwards.
    """
    with gguf.open("rb") as stream:
        if stream.read(4) != _MAGIC:
            raise ModelError(f"{gguf} is not a GGUF file (its first bytes say so); it may be cut short or a web page.")
    if _PART.search(gguf.name):
        raise ModelError(
            f"{gguf} is one part of a split model. Join the parts with llama.cpp's llama-gguf-split --merge, "
            "or name the model's safetensors folder or Hugging Face id."
        )
    if is_cut_short(gguf):
        raise ModelError(
            f"{gguf} is damaged or cut short: it has {gguf.stat().st_size} bytes and ends before its contents do. "
            "Fetch or copy it again, and compare its size with the original's."
        )
    log = built.parent / "convert.log"
    with log.open("wb") as output:
        status = subprocess.run(
            [sys.executable, "-m", "app.catalog.gguf_convert", str(gguf), str(built)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"},
            cwd=Path(__file__).resolve().parents[2],
        ).returncode
    if status == 0:
        return
    lines = log.read_text("utf-8", "replace").strip().splitlines() or [f"exit code {status}"]
    if any("No space left on device" in line for line in lines):
        raise ModelError(f"The disk of {built} filled up while converting {gguf.name}. Free some space and try again.")
    if status < 0:
        lines.append(f"killed by signal {-status}, perhaps out of memory")
    raise ModelError(
        f"Cannot convert {gguf} for the LLM worker: {lines[-1]}. Name the model's safetensors folder or Hugging Face id "
        'instead, or serve the file with llama.cpp and set llm.backend = "openai" and llm.base_url.'
    )


def converted_copy(gguf: Path, store: Store) -> Path:
    """The folder with the converted copy of a user's own ``gguf``; made now if it is not there yet.

    The copy is bound to the file's path, size and time of change: a new file gets a new copy.
    """
    path = gguf.resolve()
    stat = path.stat()
    key = hashlib.sha256(f"{path}|{stat.st_size}|{stat.st_mtime_ns}".encode()).hexdigest()[:16]
    name = f"converted-{path.stem}-{key}"
    with store.lock(name):
        folder = store.folder(name)
        manifest = Manifest.read(folder)
        if manifest is not None and not manifest.fault(folder):
            return folder
        store.need_space(stat.st_size * GROWTH)
        staging = store.staging(name)
        remove_tree(staging)
        built = staging / "built"
        store.make_folder(built)
        try:
            began = time.monotonic()
            # Once for each file, but for so long that a start without a word would look like a hang.
            log_event(
                _log,
                "converting_gguf",
                level=logging.WARNING,
                file=str(gguf),
                mib=stat.st_size >> 20,
                note="once; 15 s and more",
            )
            convert(path, built)
            log_event(_log, "converted_gguf", file=str(gguf), took_s=time.monotonic() - began)
            Manifest(name, str(path), folder_specs(built)).write(built)
            return store.publish(built, name)
        finally:
            remove_tree(staging)
