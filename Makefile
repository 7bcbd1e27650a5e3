# Parley. `make run` talks, `make test` tests; both set up what they need, on a fresh machine too.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help venv system models run test check bench clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

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
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(VENV)/.installed ## lint and type-check
	$(BIN)/ruff check .
	$(BIN)/mypy --strict app

bench: $(VENV)/.installed models ## timings of two typed turns (no separate benchmarks exist yet)
	$(BIN)/python -m app talk --text "Why is the sky blue?" --text "Say it shorter."

clean: ## remove the virtual environment and caches; fetched models stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
