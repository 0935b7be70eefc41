# make demo     see batchq work, nothing to set up but Python 3.11+
# make test     all tests            make test ARGS='-k lease'
#                                    make test POSTGRES=/usr/lib/postgresql/15/bin
# make lint     ruff, mypy           make reference   rewrite sql/REFERENCE.md
# make bench    measure              make clean       forget what was built
# make screenshots   take the pictures of docs/screenshots anew

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
POSTGRES ?=
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
MAKEFLAGS += --no-print-directory

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench reference screenshots clean

help:
	@sed -n 's/^# \{0,1\}//p; /^$$/q' Makefile

demo: $(STAMP)
	@$(BIN)/batchq demo $(ARGS)

# all of them side by side; a chosen few one by one, with their output as it comes
test: $(STAMP)
	@$(BIN)/python -m pytest $(if $(ARGS),,-n auto --maxprocesses 4 --dist loadfile) \
		$(if $(POSTGRES),--postgres=$(POSTGRES)) $(ARGS)

lint: $(DEV_STAMP)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

bench: $(STAMP)
	@$(BIN)/python bench/run.py $(ARGS)

reference: $(STAMP)
	@$(BIN)/python tests/support/reference.py $(ARGS)

screenshots: $(STAMP)
	@$(BIN)/python -m tests.browser.screenshots

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "batchq needs Python 3.11 or newer; name one with: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; \
		exit 1; }
	@echo "Setting up $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV) || { \
		echo "Could not make $(VENV); on Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[embedded,test]'
	@touch $(STAMP)

$(DEV_STAMP): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[embedded,test,dev]'
	@touch $(DEV_STAMP)

clean:
	@rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
