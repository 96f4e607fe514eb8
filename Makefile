# make run   sets up and runs the default experiment;  make run ARGS="algo=adaptive rounds=100"
# make test  sets up and runs the tests: those without Ray side by side, then those with real Ray
# make docs  renders the docstrings: build/docs/index.html
# make check what CI and pre-commit check besides: format, lint, types
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: run test check bench docs clean

run: $(VENV)/installed
	$(BIN)/python -m flexray.run $(ARGS)

test: $(VENV)/installed
	$(BIN)/python -m pytest -m "not ray" -n auto --dist worksteal $(ARGS)
	$(BIN)/python -m pytest -m ray $(ARGS)

check: $(VENV)/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/installed
	$(BIN)/python experiments/bench.py $(ARGS)

docs: $(VENV)/installed
	$(BIN)/python docs/render_api.py build/docs

$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "flexray needs Python 3.11 or newer, $(PYTHON) is older; give another: make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check -q -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist
