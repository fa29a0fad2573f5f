# make demo: FDR-controlled explanations of a real model.   make test: ruff, mypy, pytest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint types pytest docs clean

demo: $(VENV)/.base
	$(BIN)/butfor demo --out demo

test: lint types pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests examples tools
	$(BIN)/ruff format --check src tests examples tools

types: $(VENV)/.dev
	$(BIN)/mypy

pytest: $(VENV)/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[dev]"
	touch $@ $(VENV)/.base

docs: $(VENV)/.dev
	$(BIN)/python -c "from butfor.core.select.guarantees import page; print(page(), end='')" > docs/guarantees.md

clean:
	rm -rf $(VENV) .venv-mlserver demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
