# Two commands need nothing but Python, make and a C++ compiler:
#   make demo    set up and extract typed data from a text with the bundled model
#   make test    set up and run the tests
# `make help` lists the rest.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml constraints.txt CMakeLists.txt $(wildcard constrained/_core/*)

.PHONY: help demo test test-slow check format docs clean

help:
	@echo "demo       set up, then extract typed data from a text with the bundled model"
	@echo "test       set up, then run the tests"
	@echo "test-slow  the long and statistical tests"
	@echo "check      lint, formatting, types"
	@echo "format     rewrite the code in the project's format"
	@echo "clean      remove the environment and everything built"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.run: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.run

demo: $(VENV)/.run
	@$(BIN)/constrained demo

test: $(VENV)/.dev
	$(BIN)/pytest -m "not slow"

test-slow: $(VENV)/.dev
	$(BIN)/pytest -m slow

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build
