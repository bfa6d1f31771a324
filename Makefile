# Everything runs inside .venv, which the first target that needs it creates.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-minimal lint bench dist docs clean

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: .venv/ready
	$(BIN)/pars demo

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

test: lint
	$(BIN)/pytest -n auto --maxprocesses 4 --dist loadscope --no-loadscope-reorder   # one thread each; conftest orders

bench: .venv/ready   # trains what results/digits.jsonl lacks, then prints the table
	$(BIN)/python benchmarks/tables.py digits

dist: .venv/ready   # wheel and sdist in dist/, then the quickstart offline in an empty environment without this folder
	$(BIN)/pip install --quiet --disable-pip-version-check 'build>=1.2'
	rm -rf dist build/lib
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python tools/check_wheel.py dist/*.whl

docs: .venv/ready   # the site in build/docs; a warning is an error
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/python tools/build_docs.py build/docs

test-minimal:   # the tests with the lowest versions of the dependencies that work
	$(PYTHON) -m venv build/minimal
	build/minimal/bin/pip install --quiet --disable-pip-version-check -c constraints-minimal.txt -e . pytest pytest-xdist hypothesis
	build/minimal/bin/pytest -n auto --maxprocesses 4 --dist loadscope tests/losses tests/noise tests/data tests/fitting tests/cli

clean:
	rm -rf .venv build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
