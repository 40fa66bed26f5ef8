# Every command works on a fresh machine with Python 3.11 or newer and make.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Each process has an embedded server of its own; more than four only wait for the longest test.
PARALLEL := --numprocesses auto --maxprocesses 4 --dist worksteal

.PHONY: setup demo lint format test test-unit test-hindsight test-readme test-operations torture torture-sample clean

setup: .venv/.rcll

.venv/.rcll: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer found; install one, or say make PYTHON=/path/to/python"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable .
	@touch $@

.venv/.dev: .venv/.rcll
	$(PIP) --editable '.[dev]'
	@touch $@

.venv/.hindsight: .venv/.dev
	$(PIP) --editable '.[dev,hindsight]'
	@touch $@

demo: setup                 ## the main job on the embedded default
	$(BIN)/rcll demo

lint: .venv/.dev            ## style, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: .venv/.dev            ## all tiers that need nothing but Python
	$(BIN)/pytest $(PARALLEL)

test-unit: .venv/.dev       ## seconds
	$(BIN)/pytest $(PARALLEL) tests/unit

test-hindsight: .venv/.hindsight   ## beside a real Hindsight server
	$(BIN)/pytest tests/hindsight

test-readme: .venv/.dev     ## the README's commands, as a newcomer types them
	$(BIN)/pytest tests/readme

torture: .venv/.hindsight          ## kills, crowds, stopped holders, full disks: the full counts, 20 minutes
	RCLL_TORTURE=full $(BIN)/pytest tests/torture --timeout=3600

torture-sample: .venv/.hindsight   ## a seeded sample of it (RCLL_SEED), in four minutes
	$(BIN)/pytest tests/torture

test-operations: .venv/.dev        ## Prefect server, worker, clock, kills, Dask workers, on loopback
	$(BIN)/pytest tests/operations --timeout=1200
	RCLL_EXAMPLES=60 $(BIN)/pytest tests/service/test_openapi.py --timeout=1200

clean:
	rm -rf .venv .rcll .pytest_cache .ruff_cache .hypothesis .import_linter_cache
