# The tasks live in `python -m cudalab …`; this file only finds a Python and calls them.
# On Windows without make, run the commands of a target by hand (README.md).

VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; \
	done)

# Another environment that happens to be activated is not the one that the targets run in.
unexport VIRTUAL_ENV

.PHONY: help environment lab test test-long test-gpu exercises record bench lint lock

help:
	@echo 'make lab        make the environment, open your copy of the course in JupyterLab (PORT=8888)'
	@echo 'make test       make the environment, run all tests that need no GPU'
	@echo 'make test-long  the large corpora, fuzzing and soak'
	@echo 'make test-gpu   what needs a GPU'
	@echo 'make exercises  write exercises/ from solutions/'
	@echo 'make record     run the notebooks on the GPU of this machine and store their outputs'
	@echo 'make bench      the speed tables'
	@echo 'make lint       the gates: ruff, mypy, import contracts, declared dependencies (.pre-commit-config.yaml)'
	@echo 'make lock       renew the lock files and environment.yml from pyproject.toml'

environment:
	@test -n "$(PYTHON)" || { echo 'cudalab needs Python 3.11 or newer; none was found. Install one, or name it: make lab PYTHON=/path/to/python' >&2; exit 1; }
	@$(PYTHON) -m cudalab setup --venv $(VENV)

lab: environment
	@$(BIN)/python -m cudalab lab $(if $(PORT),--port $(PORT))

test: environment
	@$(BIN)/python -m cudalab test

test-long: environment
	@$(BIN)/python -m cudalab test --long

test-gpu: environment
	@$(BIN)/python -m cudalab test --gpu

exercises: environment
	@$(BIN)/python -m cudalab exercises

record: environment
	@$(BIN)/python -m cudalab record

bench: environment
	@$(BIN)/python -m bench

lint: environment
	@$(BIN)/pre-commit run --all-files

lock: environment
	@$(BIN)/python -m cudalab lock
