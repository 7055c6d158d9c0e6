# Two commands: `make demo` shows what Foveate does, `make test` checks it. `make help` lists the rest.
# Everything is installed into .venv; nothing else on the machine changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLIENTS := build/clients
RAY := build/ray
PYRIGHT := 1.1.414
# torch comes first and pinned: left to itself, pip might choose another build with every later install.
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt
# Tests start many processes: without compiled modules, each of them would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test lint types viewer clients docs dist release clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.user ## train on a pronunciation dictionary (for some minutes), score, draw alignments, write demo/report.html
	@$(BIN)/python examples/pronunciation/run.py --out demo

test: lint ## set up, check style, types and layers, then run all tests
	@echo "== tests (some minutes)"
	@$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(VENV)/.developer ## check style, types and layers only
	@echo "== style"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "== types"
	@$(BIN)/mypy
	@echo "== layers"
	@$(BIN)/lint-imports

types: $(VENV)/.developer ## check the Python of README and pages as their readers' editors do, by pyright; needs node 20
	@echo "== types of the pages"
	@rm -rf build/pages && $(BIN)/python tests/surface/program.py build/pages
	@npx --yes pyright@$(PYRIGHT) --warnings --pythonpath $(BIN)/python --project build/pages

viewer: $(VENV)/.developer ## check that the committed viewer is what viewer/ builds, and test it; needs node 20 and chromium
	@echo "== viewer"
	@cd viewer && npm ci --no-audit --no-fund --loglevel=error && ./check-build && npm test && npm run e2e

clients: $(VENV)/.developer $(CLIENTS)/.installed $(RAY)/.installed ## run every client that the service promises to answer against it, and a cluster of Ray; needs node 20
	@echo "== clients of the service, and Ray"
	@$(BIN)/python -m pytest tests/clients/every_client.py
	@PYTHONPATH=$(CURDIR)/$(RAY) $(BIN)/python -m pytest tests/clients/ray_cluster.py

docs: $(VENV)/.documents ## build the documentation site with its lessons in four languages, and look at it in chromium; needs node 20
	@echo "== documentation"
	@$(BIN)/python docs/website/build_site.py
	@cd viewer && npm ci --no-audit --no-fund --loglevel=error && npm run site

dist: $(VENV)/.developer ## build the source distribution and, from it, the wheel into dist/
	@echo "== building"
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist . >/dev/null
	@ls dist

release: dist ## install the wheel into a fresh environment outside the repository, and use it there
	@.ci/release "$(PYTHON)" dist/foveate-*.whl

clean: ## remove what demo, examples, tests and builds leave behind; .venv stays
	rm -rf demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests examples benchmarks -name __pycache__ -prune -exec rm -rf {} +

# Stamps: each is made once, and again when what it depends on changes.

$(VENV)/.torch: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Foveate needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	@echo "== making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "== installing torch (the large one)"
	@$(INSTALL) torch
	@touch $@

$(VENV)/.user: pyproject.toml $(VENV)/.torch
	@echo "== installing foveate with scores"
	@$(INSTALL) --quiet -e '.[eval]'
	@touch $@

$(VENV)/.documents: docs/website/requirements.txt $(VENV)/.user
	@echo "== installing the tools of the documentation"
	@$(INSTALL) --quiet -r docs/website/requirements.txt
	@touch $@

$(VENV)/.developer: pyproject.toml $(VENV)/.torch
	@echo "== installing foveate with the tools of its developers"
	@$(INSTALL) --quiet -e '.[dev]'
	@$(BIN)/python -m pip check
	@touch $@

$(CLIENTS)/.installed: tests/clients/requirements.txt tests/clients/package-lock.json
	@echo "== installing clients of the service into $(CLIENTS)"
	@$(PYTHON) -m venv $(CLIENTS)
	@$(CLIENTS)/bin/python -m pip install --disable-pip-version-check --quiet -r tests/clients/requirements.txt
	@$(CLIENTS)/bin/python -m pip install --disable-pip-version-check --quiet --no-deps weblate==5.14.3
	@cd tests/clients && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(RAY)/.installed: constraints.txt $(VENV)/.torch
	@echo "== installing Ray into $(RAY)"
	@rm -rf $(RAY)
	@$(INSTALL) --quiet --target $(RAY) 'ray[data]==2.60.0'
	@touch $@
