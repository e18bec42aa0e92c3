# `make demo` and `make test` work on a fresh clone: they set up what they need first.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes
COMPILE := .venvs/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header

.PHONY: help setup demo test test-containers check fix bench conformance text-score fuzz lock clean

help:
	@echo "make demo         run the gateway with example servers until Ctrl-C"
	@echo "make test         run the tests"
	@echo "make test-containers  the tests that need Docker and Podman"
	@echo "make check        what CI runs: format, lint, types, import contracts, tests"
	@echo "make fix          format, mend what can be mended, write generated pages anew"
	@echo "make conformance  the official suite, directly and through the gateway"
	@echo "make bench        speed, compared with nginx and other proxies"
	@echo "make text-score   the text converter, compared with every other one that can be installed"
	@echo "make fuzz         the property tests, for much longer"
	@echo "make lock         pin the dependencies anew"
	@echo "make clean        remove everything that was set up or built"

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv

.venv/runtime: .venv/bin/python requirements/build.txt requirements/runtime.txt pyproject.toml
	$(INSTALL) -r requirements/build.txt -r requirements/runtime.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@

.venv/dev: .venv/runtime requirements/dev.txt
	$(INSTALL) -r requirements/dev.txt
	@touch $@

setup: .venv/dev

demo: .venv/runtime
	@$(BIN)/python scripts/demo.py

# Without npm the suites that need it are skipped, and said so at the end; in CI a skip is a failure. What fails is
# run once more, alone: the end-to-end tests share two cores with everything they start.
test: .venv/dev
	-@$(BIN)/python -m tests.conformance.setup
	-@$(BIN)/python -m tests.workloads.sandbox_setup
	-@$(BIN)/python scripts/setup_browser.py
	$(PYTEST) -n auto --dist loadfile || { [ $$? -eq 1 ] && echo "once more, alone, what failed" && \
		$(PYTEST) --last-failed --last-failed-no-failures=none; }

test-containers: .venv/dev
	-@$(BIN)/python -m tests.workloads.containers.setup
	MOORING_TEST_CONTAINERS=1 $(PYTEST) tests/workloads/containers

check: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/deptry src
	$(MAKE) --no-print-directory test

fix: .venv/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python -m mooring.config.reference docs/reference/configuration.md
	$(BIN)/python -m mooring.interfaces.cli.reference docs/reference/commands.md

conformance: .venv/dev
	$(BIN)/python -m tests.conformance.run --write-docs

bench: .venv/dev
	$(BIN)/python -m bench --write-docs

text-score: .venv/dev
	$(BIN)/python -m tests.text.score --write-docs

fuzz: .venv/dev
	$(PYTEST) -m hypothesis --fuzz=50 --timeout=3600

lock:
	test -x .venvs/lock/bin/uv || ($(PYTHON) -m venv .venvs/lock && .venvs/lock/bin/pip install --quiet uv)
	$(COMPILE) requirements/build.in -o requirements/build.txt
	$(COMPILE) pyproject.toml -o requirements/runtime.txt
	$(COMPILE) pyproject.toml --extra dev -o requirements/dev.txt

clean:
	rm -rf .venv .venvs node_modules .cache data build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
