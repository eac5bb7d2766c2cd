# `make app` runs the lab, `make test` passes its tests; both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: app test test-fast gpu-check lint format clean

$(VENV)/.app: requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements.txt
	touch $@

$(VENV)/.dev: requirements.txt requirements-dev.txt $(VENV)/.app
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	touch $@

app: $(VENV)/.app
	$(BIN)/python app.py

# Two processes, each with one thread and whole files: models are loaded once per file.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

# Browser tests use Chromium when /usr/bin/chromium (or $$CHROMIUM) is there and say so when not.
test: $(VENV)/.dev
	$(PYTEST)

test-fast: $(VENV)/.dev
	$(PYTEST) -m "not browser and not slow"

# On a machine with CUDA, in under eight minutes: what torch computes, then what it costs.
gpu-check: $(VENV)/.dev
	$(BIN)/python -m pytest -q tests/models/test_static_llama.py tests/models/test_llama.py tests/models/test_trees.py \
	  tests/engine/test_torch_verify.py tests/lab/test_gpu_check.py
	$(BIN)/python -m speclab gpu-check

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
