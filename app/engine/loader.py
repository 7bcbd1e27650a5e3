"""Loads a causal language model from disk: weights, tokeniser, chat template, and the runner that is right for it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from app.engine.beginnings import Constrain
from app.engine.choose import BLOCK_TOKENS, choose
from app.engine.grammar import Grammars
from app.engine.options import LoadOptions
from app.engine.positions import longest_context
from app.engine.prompt import PromptBuilder, Vocabulary
from app.engine.rendering import Render
from app.engine.runner import Backend
from app.engine.tools import marks_of, tool_format
from app.errors import ModelError
from app.telemetry.log import log_event

log = logging.getLogger(__name__)
disable_progress_bar()  # it would draw over the lines of whoever started the worker


@dataclass(frozen=True, slots=True)
class LoadedModel:
    backend: Backend
    prompts: PromptBuilder
    constrain: Constrain | None
    """None if the tokeniser allows no constrained output."""
    eos_ids: frozenset[int]
    context_tokens: int
    blocks: int
    block_tokens: int
    runner: str
    device: str
    dtype: str


def load(options: LoadOptions) -> LoadedModel:
    """Raises ModelError if the folder holds no usable model."""
    options.check()
    torch.set_num_threads(options.threads)
    device = _device(options.device)
    dtype = torch.float32 if options.quantization == "none" else torch.bfloat16
    try:
        tokenizer, model = _read(options.path, dtype)
    except Exception as error:
        raise ModelError(f"{options.path} cannot be loaded as a causal language model: {error}") from error
    model.to(device).eval().requires_grad_(False)
    context = min(options.context_tokens, longest_context(model.config))
    runner, blocks = choose(model, options, device, context)
    if runner.name == "native":
        # Only sampling is left to torch, in pieces so small that waking a second thread costs more than it saves.
        torch.set_num_threads(1)
    eos_ids = _eos_ids(model, tokenizer)
    return LoadedModel(
        backend=Backend(runner),
        prompts=_prompt_builder(tokenizer, options.path, context),
        constrain=_constrain(tokenizer, eos_ids),
        eos_ids=eos_ids,
        context_tokens=context,
        blocks=blocks,
        block_tokens=BLOCK_TOKENS,
        runner=runner.name,
        device=device,
        dtype="float32" if options.quantization == "none" else options.quantization,
    )


def _device(wanted: str) -> str:
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        raise ModelError(f'llm.device is "{wanted}", but no CUDA device is usable here: set it to "auto" or "cpu"')
    return wanted


def _read(path: Path, dtype: torch.dtype) -> tuple[Any, Any]:
    tokenizer = AutoTokenizer.from_pretrained(str(path), local_files_only=True)
    return tokenizer, AutoModelForCausalLM.from_pretrained(str(path), dtype=dtype, local_files_only=True)


def _prompt_builder(tokenizer: Any, path: Path, context: int) -> PromptBuilder:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError(f"{path} has no fast tokeniser: add its tokenizer.json")
    render: Render | None = None
    tools_in = ""
    if tokenizer.chat_template:
        # A tokenizer may have a template of its own for conversations with tools.
        tools_in = tool_format(tokenizer.get_chat_template(tools=[{}]))

        def render(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, /) -> str:
            # SmolLM3 has a name of its own for them.
            named = {"tools": tools, "xml_tools": tools} if tools else {}
            text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **named)
            return text

    opens_with_bos = tokenizer.bos_token_id is not None and tokenizer("a").input_ids[0] == tokenizer.bos_token_id
    bos = tokenizer.bos_token if opens_with_bos else ""
    vocabulary = Vocabulary(backend, shown=marks_of(tools_in))
    return PromptBuilder(vocabulary, render, bos=bos, context_tokens=context, tool_format=tools_in)


def _constrain(tokenizer: Any, eos_ids: frozenset[int]) -> Constrain | None:
    try:
        return Grammars(tokenizer.backend_tokenizer, eos_ids).json
    except ValueError as error:
        log_event(log, "llm.no_constrained_output", level=logging.WARNING, why=str(error))
        return None


def _eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    ids: set[int] = set()
    for source in (getattr(model, "generation_config", None), model.config, tokenizer):
        found = getattr(source, "eos_token_id", None)
        ids.update(found if isinstance(found, list) else [found] if found is not None else [])
    return frozenset(ids)
