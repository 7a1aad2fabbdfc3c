PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What `make demo` needs, which is what desim itself needs; all other targets complete the same environment.
DEMO_NEEDS := .
DEMO_STAMP := $(VENV)/.installed-demo
STAMP := $(VENV)/.installed
INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check
EDITABLE := --config-settings editable_mode=compat -e
SOURCES := desim agents workloads experiments benchmarks tests docs conftest.py

.PHONY: demo install test slow lint docs bench format dist check-dist clean help

help:
	@echo "make demo    run policies on a generated workload; writes demo/view.html"
	@echo "make install all packages, for learned agents, tests and documentation, too"
	@echo "make test    the whole test suite"
	@echo "make slow    the long statistical tests, and all property tests with examples of their own"
	@echo "make lint    ruff, mypy --strict, import-linter, numpydoc, codespell, words"
	@echo "make docs    build docs/_build/html"
	@echo "make bench   relative measurements"
	@echo "make dist    wheel and sdist in dist/; make check-dist installs the wheel elsewhere and runs the tests of the sdist"

$(DEMO_STAMP): setup.cfg pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "desim needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) $(EDITABLE) "$(DEMO_NEEDS)"
	@touch $@

$(STAMP): $(DEMO_STAMP)
	$(INSTALL) $(EDITABLE) ".[test,lint,docs]"
	@# Another implementation of HEFT and CPOP, for comparison, without the large packages that the rest of it needs.
	$(INSTALL) --no-deps \
		anrg-saga pysmt pydantic pydantic_core annotated-types typing-inspection
	@touch $@

demo: $(DEMO_STAMP)
	$(BIN)/desim demo --out demo

install: $(STAMP)

# One thread each for linear algebra: the tests run in two processes, and threads that wait for a busy core are slow.
# Compiled modules are kept, whatever the shell says: tests start Python many times.
TESTING := OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

test: $(STAMP)
	$(TESTING) $(BIN)/python -m pytest

# `make test` draws the same examples each time, this draws new ones; a failure prints how to see it again.
slow: $(STAMP)
	$(TESTING) $(BIN)/python -m pytest -m "slow or hypothesis" --hypothesis-profile=random -n 0

lint: $(STAMP)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/numpydoc lint $$(git ls-files 'desim/*.py' 'agents/*.py' 'workloads/*.py')
	$(BIN)/codespell $(SOURCES) README.md CHANGELOG.md
	$(BIN)/python -m pytest -q -n 0 tests/docs/test_wording.py

format: $(STAMP)
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

docs: $(STAMP)
	$(BIN)/sphinx-build --fail-on-warning --keep-going -b html docs docs/_build/html

bench: $(STAMP)
	$(BIN)/python -m benchmarks

dist: $(STAMP)
	$(INSTALL) build
	rm -rf dist build
	$(BIN)/python -m build --outdir dist .

# What users install: the wheel in an environment of its own, and the tests of the sdist, away from the sources.
check-dist: dist
	mkdir -p build/check
	tar -xzf dist/desim-*.tar.gz -C build/check --strip-components=1
	$(PYTHON) -m venv build/check/.venv
	PIP_CONSTRAINT=constraints.txt build/check/.venv/bin/python -m pip install --quiet --disable-pip-version-check \
		"$$(ls $(CURDIR)/dist/desim-*.whl)[test,docs]"
	PIP_CONSTRAINT=constraints.txt build/check/.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		anrg-saga pysmt pydantic pydantic_core annotated-types typing-inspection
	rm -rf build/check/desim
	cd build/check && $(TESTING) .venv/bin/pytest

clean:
	rm -rf $(VENV) demo docs/_build docs/auto_examples build dist *.egg-info
