# Two commands: `make demo` and `make test`. Each sets up what it needs in .venv, and neither needs the other.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q
ROOMS  := $(patsubst src/riskroute/%/__init__.py,%,$(wildcard src/riskroute/*/__init__.py))

BENCHMARKS := cold_start design allocations runner reproduction market queues fuzz_market peers backtest live_log live halt quotes exchanges
EVIDENCE   := evidence against_thompson variants slopes in_reach guarantee split_study
ROUTERS    := headroom routers contextual literature verdicts
SEARCHES   := closest
SOAKS      := soak

# Caches in the checkout: compiled kernels, fonts, settings of libraries.
CACHE := $(CURDIR)/.cache
export NUMBA_CACHE_DIR := $(CACHE)/numba
export MPLCONFIGDIR    := $(CACHE)/matplotlib
export DASK_CONFIG     := $(CACHE)/dask
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo live-demo paper-demo browser check check-and-collect test thorough coverage crash simulate-faults bench soak evidence routers real-data reproduction closest reference docs readme clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      a router study for 1,000 shares and a comparison of policies; files in out/demo"
	@echo "make live-demo the live router on simulated venues, with a kill -9 halfway; dashboard until Ctrl-C"
	@echo "make test      lint, types, room rules and tests; make test ROOM=learning runs the tests of one room only"
	@echo "make thorough  the slowest tests, not in make test: clusters, random kills, the documentation site"
	@echo "make coverage  make test with line coverage; takes a quarter longer"
	@echo "make crash     crash tests of the live router: kills, power cuts, full disks; make test runs a selection"
	@echo "make simulate-faults  the whole live service in simulated time, with faults from seeds (SECONDS=600)"
	@echo "make paper-demo five minutes of orders at two loopback exchanges, with cuts and restarts, then a reconciliation"
	@echo "make browser   install the browser for the page tests, which are skipped without it"
	@echo "make bench     speed: optimal design, the runner, market data, peer libraries (BENCHFLAGS=--quick for a smoke test)"
	@echo "make soak      the live router under steady load on a large state, with and without snapshots (about 25 minutes)"
	@echo "make evidence  the recommended policy and the split study on held-out instances (about 15 minutes)"
	@echo "make routers   all routers on recorded and synthetic days, and the headroom for learning"
	@echo "make real-data DATA=../shared/data  studies of recorded books of real markets, and docs/real-data.md"
	@echo "make reproduction  every figure and table of the paper, and docs/reproduction.md (about a minute)"
	@echo "make closest   search for the settings that the paper omits, and docs/reproduction.md (about 15 minutes)"
	@echo "make reference the pages of commands and configuration files, from the code"
	@echo "make docs      the documentation site, in out/site"
	@echo "make readme    refresh the demo's output in README.md"
	@echo "make clean     remove .venv, caches and out/"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "riskroute needs Python 3.11 or newer, was $$($(PYTHON) --version); set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp per set of extras: installing again happens only when pyproject.toml or the pins change.
$(VENV)/.installed-%: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing riskroute[$*] into $(VENV) (about a minute the first time)"
	$(PIP) install -c constraints.txt -e '.[$*]'
	@touch $@

demo: $(VENV)/.installed-market,report
	$(BIN)/python -m riskroute demo --out out/demo

live-demo: $(VENV)/.installed-live
	$(BIN)/python -m riskroute live demo

paper-demo: $(VENV)/.installed-ccxt
	PYTHONPATH=tests/support $(BIN)/python tests/support/paper_demo.py

# The page tests need a browser and are skipped without one. The only step that installs into the system.
browser:
	@command -v chromium > /dev/null && command -v chromedriver > /dev/null || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo "installing chromium and chromium-driver"; \
	    (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver) > /dev/null || true; \
	  else echo "page tests are skipped: install chromium and chromium-driver"; fi

# A worker takes whole files, so their fixtures are built once; the longest files first (tests/support/longest.py).
WORKERS := $(shell $(PYTHON) -c 'import os; print(min(os.cpu_count(), 8))')
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

ifdef ROOM
ifeq ($(filter $(ROOMS),$(ROOM)),)
test:
	@echo "ROOM must be one of $(ROOMS), was $(ROOM)"; exit 2
else
test: $(VENV)/.installed-dev
	$(PYTEST) tests/$(ROOM) src/riskroute/$(ROOM)
endif
else
# Compile kernels and assertions once, in parallel with the static checks, so that test workers find them compiled.
test: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory -j 2 check-and-collect $(COMPILED)
	$(PYTEST) $(PYTESTFLAGS)
endif

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# In sequence: together the two take as long as compiling.
check-and-collect: check
	@$(MAKE) --no-print-directory $(COLLECTED)

COLLECTED := $(CACHE)/.collected
$(COLLECTED): $(shell find src tests benchmarks -name '*.py') $(VENV)/.installed-dev
	@mkdir -p $(CACHE)
	@$(BIN)/python -m pytest --collect-only -q > $(CACHE)/collected.txt || { cat $(CACHE)/collected.txt; exit 1; }
	@touch $@

COMPILED := $(NUMBA_CACHE_DIR)/.compiled
$(COMPILED): $(shell find src tests/support/compile_kernels.py -name '*.py') $(VENV)/.installed-dev
	@$(BIN)/python tests/support/compile_kernels.py
	@touch $@

coverage: PYTESTFLAGS := --cov --cov-report=term
coverage: test

# All faults, of which `make test` tries a selection; ends with the number of survived faults by kind.
crash: $(VENV)/.installed-dev
	RISKROUTE_CRASH=long $(PYTEST) -m crash tests/live

# Days of the live router in minutes; a seed that breaks a guarantee is shrunk and printed.
SECONDS := 600
simulate-faults: $(VENV)/.installed-dev
	@PYTHONPATH=tests/support $(BIN)/python -m simulated_service --seconds $(SECONDS) $(SIMULATEFLAGS)

# Clusters, random kills, the site, and all kernels compiled for a processor without vector units.
thorough: $(VENV)/.installed-dev
	$(PYTEST) -m thorough tests

# All run even if one misses a target; make then fails at the end.
bench: $(VENV)/.installed-bench,ccxt,live,market,postgres,report
	@status=0; for name in $(BENCHMARKS); do \
	  echo "== benchmarks/$$name.py"; $(BIN)/python benchmarks/$$name.py $(BENCHFLAGS) || { status=1; echo "$$name.py failed"; }; \
	done; exit $$status

soak: $(VENV)/.installed-live
	@for name in $(SOAKS); do $(BIN)/python benchmarks/$$name.py $(BENCHFLAGS) || exit 1; done

# Each printout goes to its page, even if a target fails.
evidence: SCRIPTS := $(EVIDENCE)
routers: SCRIPTS := $(ROUTERS)
evidence routers: $(VENV)/.installed-market,report
	@status=0; for name in $(SCRIPTS); do \
	  echo "== benchmarks/$$name.py"; OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/$$name.py || { status=1; echo "$$name.py failed"; }; \
	  $(BIN)/python docs/refresh.py evidence $$name || exit 1; \
	done; exit $$status

DATA ?= ../shared/data
real-data: $(VENV)/.installed-market,report
	$(BIN)/python docs/real_data.py $(DATA)

reproduction: $(VENV)/.installed-market,report
	mkdir -p out/reproduce
	$(BIN)/python -m riskroute reproduce all --out out/reproduce > out/reproduce/said.txt
	$(BIN)/python docs/refresh.py reproduction out/reproduce

# Stops if the preset differs from the result of the search; the printout in out/bench says what to change.
closest: $(VENV)/.installed-market,report
	@for name in $(SEARCHES); do OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/$$name.py || exit 1; done
	mkdir -p out/closest
	$(BIN)/python -m riskroute reproduce all --preset closest --out out/closest > out/closest/said.txt
	$(BIN)/python docs/refresh.py closest out/closest

reference: $(VENV)/.installed-market,report
	$(BIN)/python docs/refresh.py reference

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open out/site/index.html"

readme: $(VENV)/.installed-market,report
	$(BIN)/python docs/refresh.py readme

clean:
	rm -rf $(VENV) $(CACHE) out .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage build dist
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
