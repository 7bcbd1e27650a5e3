"""Check this machine: versions, models, port, certificate, phones, sound devices, GPU, memory. Says how to mend what is wrong."""

from __future__ import annotations

import argparse
import contextlib
import errno
import http.client
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import socket
import ssl
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import psutil

from app.catalog import Kind, model_path
from app.cli.finding import Finding
from app.cli.interrupts import end_at_once
from app.cli.phones import findings as phone_findings
from app.config import Settings, settings_folder
from app.engine.native.build import library as native_library
from app.errors import ModelError

EXAMPLES = """examples:
  python -m app doctor
"""
_PACKAGES = (
    "torch", "transformers", "faster-whisper", "ctranslate2", "onnxruntime", "hibari-tts", "silero-vad",
    "webrtcvad-wheels", "aiortc", "av", "numpy", "uvicorn", "starlette", "coqui-tts", "sounddevice", "livekit", "pymicro-wakeword",
    "cryptography", "segno",
)  # fmt: skip
_OPTIONAL = frozenset({"coqui-tts", "sounddevice", "livekit", "pymicro-wakeword"})
_NEEDED_MB = 2500
_ANSWER_S = 2.0
_LONGEST_ANSWER = 4096
_MARKS = {"good": "✓", "note": "•", "bad": "✗"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No flags of its own."""


def overrides(args: argparse.Namespace) -> Mapping[str, str]:
    return {}


def run(settings: Settings, args: argparse.Namespace | None = None) -> int:
    """Print all findings; 1 if something that is needed is broken."""
    end_at_once()  # torch is imported, and nothing is changed that would have to be put away
    broken = False
    for finding in _findings(settings, settings_folder(getattr(args, "config", None))):
        broken = broken or finding.verdict == "bad"
        print(f"{_MARKS[finding.verdict]} {finding.text}" + (f"\n    -> {finding.remedy}" if finding.remedy else ""))
    print("\nSomething needs mending." if broken else "\nAll that is needed is here.")
    return 1 if broken else 0


def _findings(settings: Settings, folder: Path) -> Iterator[Finding]:
    yield _python()
    yield from _packages()
    yield from _models(settings)
    yield _port(settings)
    yield from phone_findings(settings.server, folder)
    yield _sound()
    yield _gpu()
    yield _kernels()
    yield _memory()
    yield _disk(settings)


def _python() -> Finding:
    text = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    if sys.version_info < (3, 11):
        return Finding("bad", text, "Parley needs Python 3.11 or newer.")
    return Finding("good", text)


def _packages() -> Iterator[Finding]:
    found: list[str] = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            verdict: Literal["note", "bad"] = "note" if name in _OPTIONAL else "bad"
            yield Finding(verdict, f"{name} is not installed", "Run `make venv`.")
    yield Finding("good", "Packages: " + ", ".join(found))


def _models(settings: Settings) -> Iterator[Finding]:
    wanted: list[tuple[Kind, bool, str]] = [("asr", settings.asr.backend == "openai", settings.asr.model)]
    wanted.append(("llm", settings.llm.backend == "openai", settings.llm.model))
    wanted.append(("turn", settings.turn.backend == "silence", settings.turn.model))
    if settings.tts.backend == "piper":
        wanted.append(("tts", False, settings.tts.model or "piper-joe"))
    for kind, elsewhere, name in wanted:
        if elsewhere:
            yield Finding("good", f"{kind}: {name} needs no files here")
            continue
        try:
            yield Finding("good", f"{kind}: {model_path(name, settings.runtime.model_store, kind=kind)}")
        except ModelError as error:
            yield Finding("bad", f"{kind}: {name} cannot be used", str(error))


def _port(settings: Settings) -> Finding:
    host, port = settings.server.address, settings.server.port
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE and (scheme := _parley_at(host, port)):
                return Finding("good", f"Parley itself is running on {host}:{port} ({scheme})")
            return Finding("note", f"{host}:{port} cannot be used ({error.strerror})", "Set server.port, or --port.")
    return Finding("good", f"{host}:{port} is free for the server")


def _parley_at(host: str, port: int) -> str:
    """By which scheme a Parley answers there; empty where none does."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    unchecked = ssl._create_unverified_context()  # whose it is matters, not whether a name fits
    for scheme, connection in (
        ("https", http.client.HTTPSConnection(name, port, timeout=_ANSWER_S, context=unchecked)),
        ("http", http.client.HTTPConnection(name, port, timeout=_ANSWER_S)),
    ):
        with contextlib.closing(connection), contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            connection.request("GET", "/healthz")
            answer = json.loads(connection.getresponse().read(_LONGEST_ANSWER))
            if isinstance(answer, dict) and answer.get("service") == "parley":
                return scheme
    return ""


def _sound() -> Finding:
    remedy = "Only `python -m app` (the local microphone) needs it; the page and `talk` do not."
    if importlib.util.find_spec("sounddevice") is None:
        return Finding("note", "sounddevice is not installed", remedy)
    try:
        import sounddevice

        devices = list(sounddevice.query_devices())
    except Exception as error:  # OSError without libportaudio2, PortAudioError without a sound server
        return Finding("note", f"No sound system: {error}", f"{remedy} On Debian: apt-get install libportaudio2.")
    inputs = sum(device["max_input_channels"] > 0 for device in devices)
    outputs = sum(device["max_output_channels"] > 0 for device in devices)
    text = f"Sound devices: {inputs} for input, {outputs} for output"
    return Finding("good", text) if inputs and outputs else Finding("note", text, remedy)


def _gpu() -> Finding:
    import torch

    if torch.cuda.is_available():
        return Finding("good", f"GPU: {torch.cuda.get_device_name(0)}")
    return Finding("good", "No CUDA GPU; everything runs on the CPU")


def _kernels() -> Finding:
    try:
        return Finding("good", f"Native kernels for the language model: {native_library().name}")
    except ModelError as error:
        return Finding("note", str(error), "Without them the model runs through torch, several times as slow.")


def _memory() -> Finding:
    free_mb = psutil.virtual_memory().available // 2**20
    text = f"{free_mb} MiB of memory free"
    if free_mb < _NEEDED_MB:
        return Finding("bad", text, f"The default models want about {_NEEDED_MB} MiB; close other programs.")
    return Finding("good", text)


def _disk(settings: Settings) -> Finding:
    store = settings.runtime.model_store
    folder = next(path for path in (store, *store.parents) if path.exists())
    free_mb = shutil.disk_usage(folder).free // 2**20
    return Finding("good" if free_mb > 2000 else "note", f"{free_mb} MiB of disk free for models ({store})")
