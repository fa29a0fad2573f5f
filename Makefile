# make demo: FDR-controlled explanations of a real model.   make test: ruff, mypy, pytest.
# make docs: the documentation as a site in build/docs.
# make benchmarks: every figure of docs/benchmarks.md again, into build/benchmarks (hours; BUTFOR_ASSETS for images, texts).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint types pytest docs benchmarks clean

demo: $(VENV)/.base
	$(BIN)/butfor demo --out demo

test: lint types pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests examples tools conftest.py
	$(BIN)/ruff format --check src tests examples tools conftest.py

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

# The page of guarantees, written by the code, and the whole site into build/docs; offline, and a warning is an error.
docs: $(VENV)/.dev
	$(BIN)/python -c "from butfor.results.words import guarantees_page; print(guarantees_page(), end='')" > docs/guarantees.md
	$(BIN)/python -m sphinx -E -W --keep-going -q -b html docs build/docs

$(VENV)/.bench: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[dev,bench]"
	touch $@ $(VENV)/.dev $(VENV)/.base

# Every command of `butfor bench`, whatever it is called; those on photographs and reviews only where the assets are.
benchmarks: $(VENV)/.bench
	mkdir -p build/benchmarks docs/figures
	names=$$($(BIN)/python -c "from butfor.bench.commands import app; print(*(c.name or c.callback.__name__ for c in app.registered_commands))") && \
	for name in $$names; do \
	  case "$$name-$(BUTFOR_ASSETS)" in images-|texts-) continue;; esac; \
	  echo "butfor bench $$name" && OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/butfor bench $$name --out build/benchmarks || exit 1; \
	done
	cp build/benchmarks/curves-*.svg docs/figures/

clean:
	rm -rf $(VENV) .venv-mlserver demo build/benchmarks build/docs .mypy_cache .ruff_cache .pytest_cache .hypothesis
