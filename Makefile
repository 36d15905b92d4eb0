# Two commands for a fresh machine: `make demo` and `make test`. Each makes the environment it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check env docs wheel kills benchmarks clean
.DELETE_ON_ERROR:

demo: env  ## run the main job and name the files it wrote
	$(BIN)/halfmask demo --out demo

test: env  ## the tests
	$(BIN)/python -m pytest

check: env  ## lint, format, strict types, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

env: $(STAMP)  ## only make the environment, in .venv

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, $(PYTHON) is older: install one, or run make PYTHON=/path/to/python3.11"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

docs: env  ## rewrite the generated parts of the documentation
	$(BIN)/python docs/generate.py

wheel: env  ## build the wheel, install it into an empty environment, run it outside the tree
	$(BIN)/python tests/wheel.py

kills: env  ## kill a training run at random moments, and compare
	cd tests && ../$(BIN)/python kills.py

benchmarks: env  ## every benchmark, with its check
	for file in $(filter-out benchmarks/bench.py,$(wildcard benchmarks/*.py)); do $(BIN)/python $$file --check || exit 1; done

clean:
	rm -rf $(VENV) demo dist .pytest_cache .mypy_cache .ruff_cache
