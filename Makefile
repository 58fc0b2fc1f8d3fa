# Everything is installed into .venv by the first target that needs it. PYTHON names another interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export DAGSTER_HOME := $(CURDIR)/.dagster

.PHONY: index test test-all lint dev bench clean

## Run the main job on real input, and show a search over what it made.
index: $(VENV)/.installed
	$(BIN)/dagster job execute -f pipelines/definitions.py -j index 2>&1 | $(BIN)/python tools/job_log.py
	$(BIN)/findingaid status
	$(BIN)/findingaid search "which package stores vectors in columnar files" -k 5

## Pass the tests.
test: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto -m "not slow"

test-all: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/minilm_graph.py --check

## Open the Dagster UI on http://localhost:3000
dev: $(VENV)/.installed
	$(BIN)/dagster dev -w workspace.yaml

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .findingaid .dagster/[a-z_]*

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	touch $@
