# `make` alone says what there is. Every target makes its own .venv from a bare python3, and installs again only when pyproject.toml changed.

PYTHON ?= python3
KILLS ?= 100
SEEDS ?=
SECONDS ?=
FROM ?= 0
JOBS ?= 2
SELECT ?=
ARGS ?=

BIN := .venv/bin
READY := .venv/installed.toml
PYTEST := $(BIN)/python -m pytest -q

.PHONY: help demo test check format bench kill kill-ci simulate peers install clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo     a whole lab in a scratch directory: push, switch, deploy, crash, roll back; counts every run'
	@echo 'make test     the tests; says what it left out (ARGS="tests/web -k switch" for some of them)'
	@echo 'make check    ruff, formatting, mypy'
	@echo 'make format   lay the code out'
	@echo 'make peers    the tests with OpenStack'\''s clients, os-collect-config, heat-agents and ansible, fetched from the package index'
	@echo 'make kill     kill -9 at $(KILLS) random moments of the appliance and as many of the agent (KILLS=n)'
	@echo 'make kill-ci  the same, 25 of each'
	@echo 'make simulate  histories of a simulated lab: 1000, or SEEDS=n, or as many as SECONDS=n give (FROM=n the first seed, JOBS=n processes)'
	@echo 'make bench    measurements'
	@echo 'make clean    remove what these made'

demo: install
	@$(BIN)/appliance demo $(ARGS)

test: install
	@$(PYTEST) -n auto --dist worksteal $(if $(SELECT),-m '$(SELECT)') $(ARGS)

check: install
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo 'run: make format' >&2; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/mypy --no-error-summary --config-file= --strict --python-version 3.9 --package appliance.agent

format: install
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

peers: install
	@$(PYTEST) -m real_peer $(ARGS)

kill: install
	@KILLS=$(KILLS) $(PYTEST) -m kill -n auto $(ARGS)

kill-ci:
	@$(MAKE) --no-print-directory kill KILLS=25

simulate: install
	@$(BIN)/python -m tests.simulation $(if $(SEEDS),--seeds $(SEEDS)) $(if $(SECONDS),--seconds $(SECONDS)) --from $(FROM) --jobs $(JOBS) $(ARGS)

bench: install
	@$(BIN)/python -m tests.bench $(ARGS)

# The copy of pyproject.toml in .venv is what was installed; a touched file with the same text installs nothing.
install:
	@cmp -s pyproject.toml $(READY) && test -x $(BIN)/python || $(MAKE) --no-print-directory .venv

.PHONY: .venv
.venv:
	@command -v $(PYTHON) >/dev/null || { echo 'make: no $(PYTHON) here; name a Python 3.11 or later with: make PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("make: Python 3.11 or later is needed, and $(PYTHON) is %d.%d; name another with: make PYTHON=/path/to/python3" % v[:2])'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo 'make: $(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv' >&2; exit 1; }
	@echo 'make: installing into .venv' >&2
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --disable-pip-version-check --editable '.[dev]' >.venv/install.log 2>&1 || { tail -n 30 .venv/install.log >&2; exit 1; }
	@cp pyproject.toml $(READY)

clean:
	@rm -rf .venv .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	@find . -name __pycache__ -prune -exec rm -rf {} +
