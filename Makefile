# Parley. `make run` talks, `make test` tests; both set up what they need, on a fresh machine too.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help venv system models run test check clean bench bench-peers bench-llm bench-before-after bench-interference bench-quality bench-step bench-turns bench-voice

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 27

venv: $(VENV)/.installed ## create .venv with the pinned packages

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt -e '.[piper,dev]'
	@touch $@

system: ## install system packages (Debian, as root or with sudo), or say which
	@sh scripts/system_packages.sh run

models: $(VENV)/.installed ## fetch the default models (255 MB)
	@$(BIN)/python -m app models pull

run: $(VENV)/.installed system models ## install, fetch models, serve the page
	@$(BIN)/python -m app serve

test: $(VENV)/.installed ## install, fetch models, run all tests
	@sh scripts/system_packages.sh test
	@$(BIN)/python -m app models pull
	@$(BIN)/python -m app models pull piper-joe
ifeq ($(PYTEST_ARGS),)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not alone"
	$(BIN)/python -m pytest -m alone
else
	$(BIN)/python -m pytest $(PYTEST_ARGS)
endif

check: $(VENV)/.installed ## lint and type-check
	$(BIN)/ruff check .
	$(BIN)/mypy --strict app

bench: bench-llm bench-before-after bench-interference bench-quality bench-step bench-turns bench-voice ## all that docs/performance.md shows, about an hour

bench-peers: $(VENV)/.installed ## build the engines that Parley is compared with (once; several minutes and GB)
	@for peer in transformers openvino vllm llama_cpp; do \
		echo "== $$peer"; PYTHON=$(BIN)/python sh benchmarks/peers/$$peer.sh || echo "== $$peer will be left out"; done

bench-llm: bench-peers models ## Parley's worker beside llama.cpp, vLLM, OpenVINO and transformers
	@$(BIN)/python -c "import matplotlib" 2>/dev/null || $(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks.llm

bench-before-after: $(VENV)/.installed models ## one request at a time, static batches, this worker
	@PYTHON=$(BIN)/python sh benchmarks/peers/transformers.sh
	@$(BIN)/python -c "import matplotlib" 2>/dev/null || $(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks.before_after

bench-interference: $(VENV)/.installed models ## a long prompt among running replies, and cancels
	$(BIN)/python -m benchmarks.interference

bench-step: $(VENV)/.installed models ## where a step's time goes, and the bound of the linear layers
	$(BIN)/python -m benchmarks.step

bench-quality: $(VENV)/.installed models ## what a quantization of the weights costs
	$(BIN)/python -m benchmarks.quality

bench-turns: $(VENV)/.installed models ## whether turns are ended, kept and interrupted as a person would
	@$(BIN)/python -m app models pull piper-joe
	$(BIN)/python -m benchmarks.turns

bench-voice: $(VENV)/.installed models ## voice to voice over WebRTC, 1 to 8 callers: about twenty minutes
	@$(BIN)/python -m app models pull piper-joe
	$(BIN)/python -m benchmarks.voice

clean: ## remove the virtual environment and caches; fetched models stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
