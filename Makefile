# `make demo` and `make test` do all their set-up themselves: a virtual environment, pinned packages, the demo model.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: demo test check lint clean

demo: $(VENV)/.demo-model
	$(BIN)/qwen-batch run jobs/contracts.yaml || test $$? -eq 3  # 3: finished; a model this small may be flagged
	$(BIN)/qwen-batch show out/contracts --rows 4

test: $(VENV)/.dev $(VENV)/.demo-model
	$(BIN)/python -m pytest

check: lint test

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

clean:
	rm -rf $(VENV) out build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# torch comes first and by itself: a looser range, met later, would fetch another build of it.
$(VENV)/.run: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable '.[office]'
	touch $@

$(VENV)/.dev: $(VENV)/.run
	$(PIP) --editable '.[dev]'
	touch $@

$(VENV)/.demo-model: $(VENV)/.run
	$(BIN)/qwen-batch model pull demo
	touch $@
