# Everything is reached from here; `make help` lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST_WORKERS ?= 2
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup p4 test paper trace-tests lint format bench run-topology clean

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: $(STAMP) ## install system packages and make .venv with all commands in it
	@echo "setup: ready; the commands are in $(BIN): mrc-topology, mrc-controller, mrc-sim, mrc-host, mrc-experiment, softswitch"

$(STAMP): pyproject.toml scripts/system-packages.sh
	@command -v $(PYTHON) >/dev/null || { echo "setup: there is no $(PYTHON); call make PYTHON=… with a Python 3.11 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "setup: $(PYTHON) is older than Python 3.11; call make PYTHON=… with a newer one" >&2; exit 1; }
	@PYTHON=$(PYTHON) scripts/system-packages.sh
	@echo "setup: making $(VENV) (the first time takes a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) --upgrade pip && $(PIP_INSTALL) --editable '.[dev]' || \
		{ echo "setup: the Python packages could not be installed; pip's reason is above (is PyPI reachable?)" >&2; exit 1; }
	@touch $(STAMP)

p4: $(STAMP) ## compile the P4 programs into p4src/build/ (needs p4c-bm2-ss)
	@$(BIN)/python -m p4src.build

test: $(STAMP) ## run all tests (those for BMv2, p4c or root say why where they are skipped)
	@$(BIN)/python -m pytest -n $(PYTEST_WORKERS)

trace-tests: $(STAMP) ## run the packet-trace tests and print how much of fabric.p4 they exercise
	@$(BIN)/python -m pytest tests/traces -n 0

lint: $(STAMP) ## ruff (format and lint) and mypy
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(STAMP) ## let ruff format the sources
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(STAMP) ## measure switch, controller, endpoint, virtual time; next to BMv2 where it is installed
	@$(BIN)/python -m benchmarks

TARGET ?= softswitch
SCENARIO ?= quickstart

run-topology: $(STAMP) ## bring a fabric up in network namespaces and run MRC on it while a link dies and returns
	@$(BIN)/mrc-topology run $(if $(TOPOLOGY),"$(TOPOLOGY)") --scenario "$(SCENARIO)" --target "$(TARGET)"

SCALE ?= quick
RESULTS ?= results

paper: $(STAMP) ## the paper's experiments in virtual time, ours beside the paper's, as one page (SCALE=paper: as large)
	@$(BIN)/mrc-experiment run all --scale "$(SCALE)" --out "$(RESULTS)"

clean: ## remove what make setup and the test tools left
	rm -rf $(VENV) *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
