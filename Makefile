# Every target sets up what it needs; `make` alone lists them. Works with GNU make 3.81.

SHELL := /bin/sh
PY := .venv/bin/python
export PYTHON
# Python may write bytecode, since tests load 1,800 modules and start hundreds of processes that load 200 modules each.
unexport PYTHONDONTWRITEBYTECODE

DEMO_SECONDS ?= 30
FLOW ?= agents
FEED ?=
PYTEST_ARGS ?=
# One test process for each core, at most four, as each may start a Spark (one more makes a run longer). PYTEST_ARGS=-n0
# uses a single process.
TEST_PROCESSES = -n auto --maxprocesses 4 --dist worksteal
SEEDS ?= 1000
SECONDS ?= 300
START ?= 0
WORKERS ?=
PROFILES ?=
VOLUMES ?=
HOURS ?= 12
ONLY ?=
BENCH_QUICK ?=
export BENCH_QUICK

.DEFAULT_GOAL := help
.PHONY: help setup demo screenshots docs test test-all mutations cluster cluster-down cluster-test fuzz-views fuzz-formats fuzz-exchange fuzz-stream fuzz-service simulate simulate-exchange simulate-upstreams simulate-days endurance lint format bench bench-ingest bench-views bench-engine bench-exchange bench-trading bench-strategies bench-cluster doctor release lock clean distclean

help: ## list the targets
	@echo "Targets (each sets up what it needs):"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)$$/\1@\2/p' Makefile | awk -F@ '{printf "  %-19s %s\n", $$1, $$2}'

setup: ## create .venv from the lock and find or fetch a Java; quick when up to date
	@scripts/setup.sh

demo: setup ## run the whole loop: DEMO_SECONDS=30, FLOW=agents|capture, FEED=itch|text
	@$(PY) -m deltabook demo --seconds $(DEMO_SECONDS) --flow $(FLOW) $(if $(FEED),--feed-protocol $(FEED))

screenshots: setup ## take the pictures of the dashboard in docs/ from a demo that runs some minutes
	@$(PY) -m tests.generators.screenshots

test: setup ## run the tests that are not slow: PYTEST_ARGS passes through
	@$(PY) -m pytest $(TEST_PROCESSES) -m "not slow and not docker" $(PYTEST_ARGS)

test-all: setup ## run every test but `mutations`, those of the cluster in containers where a Docker engine can be had
	@DELTABOOK_EXAMPLES=all $(PY) -m pytest $(TEST_PROCESSES) -m "not docker and not mutation" $(PYTEST_ARGS)
	@scripts/cluster.sh test || [ $$? = 77 ]

mutations: setup ## break the code on purpose in some 700 ways and expect red tests: takes hours
	@$(PY) -m pytest -n0 -m mutation $(PYTEST_ARGS)

cluster: setup ## start the whole system in containers: WORKERS=2, PROFILES="history monitoring upstreams"
	@WORKERS="$(WORKERS)" PROFILES="$(PROFILES)" scripts/cluster.sh up

cluster-down: setup ## stop it; its state stays, but for VOLUMES=1
	@VOLUMES="$(VOLUMES)" scripts/cluster.sh down

cluster-test: setup ## run the tests of the cluster in containers; DOCKER_REQUIRED=1 fails without an engine
	@PYTEST_ARGS="$(PYTEST_ARGS)" scripts/cluster.sh test

fuzz-views: setup ## compare random queries over random streams with DuckDB: SEEDS=10000 START=0
	@$(PY) -m tests.conformance.fuzz --seeds $(SEEDS) --start $(START)

fuzz-formats: setup ## format random files in random pieces, whole and broken: SECONDS=300 START=0
	@$(PY) -m tests.conformance.formats.fuzz --seconds $(SECONDS) --start $(START)

fuzz-exchange: setup ## send broken messages to the exchange's sessions: SECONDS=300 START=0
	@$(PY) -m tests.fuzz.exchange --seconds $(SECONDS) --start $(START)

fuzz-stream: setup ## send broken messages to the results service's WebSocket: SECONDS=300 START=0
	@$(PY) -m tests.fuzz.trading --seconds $(SECONDS) --start $(START)

fuzz-service: setup ## ask the results service for all that its description allows, and more: about 5 minutes
	@$(PY) -m pytest -q -n0 -m slow tests/integration/trading/test_service_description.py $(PYTEST_ARGS)

simulate: setup ## drive the runtime through faults and crashes, a seed each: SEEDS=1000 START=0
	@$(PY) -m tests.simulation --seeds $(SEEDS) --start $(START)

simulate-exchange: setup ## drive the exchange through faults and crashes, a seed each: SEEDS=1000 START=0
	@$(PY) -m tests.simulation.exchange --seeds $(SEEDS) --start $(START)

simulate-upstreams: setup ## drive runtimes that feed one through faults, a seed each: SEEDS=1000 START=0
	@$(PY) -m tests.simulation.upstreams --seeds $(SEEDS) --start $(START)

simulate-days: setup ## run random simulated days and check journal, orders and lots, a seed each: SEEDS=1000 START=0
	@$(PY) -m tests.simulation.closed --seeds $(SEEDS) --start $(START)

endurance: setup ## run all simulations, fuzzers, kills, mutations and the soak in rotation, resumable: HOURS=12 ONLY="NET ..."
	@$(PY) -m tests.endurance --hours $(HOURS) $(foreach net,$(ONLY),--only $(net))

lint: setup ## check format, rules, types and English
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) scripts/english.py
	@$(PY) -m mypy

docs: setup ## build the documentation site in build/docs/html; a warning or a dead link is an error
	@$(PY) -m sphinx --fail-on-warning --keep-going --quiet -b html -c docs -d build/docs/doctrees . build/docs/html
	@echo "docs: build/docs/html/index.html"

format: setup ## rewrite the code in its format, with the fixes that are safe
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

bench: setup ## run the benchmarks: BENCH_QUICK=1 for a short run
	@$(PY) -m bench

bench-ingest: setup ## run the benchmark of the formats, epochs, sources and memory, about 25 minutes; BENCH_QUICK=1: under 5
	@$(PY) -m bench ingest

bench-views: setup ## run the benchmark of the views alone, about 40 minutes; BENCH_QUICK=1: about 6
	@$(PY) -m bench views

bench-engine: setup ## run the benchmark of the engine, its state and the express lane; BENCH_QUICK=1 for a short run
	@$(PY) -m bench engine

bench-exchange: setup ## run the benchmark of the exchange beside books from PyPI; BENCH_QUICK=1 for a short run
	@$(PY) -m bench exchange

bench-trading: setup ## run the benchmark of results, backtests and strategies; BENCH_QUICK=1 for a short run
	@$(PY) -m bench trading

bench-cluster: setup ## run the benchmark of several workers and runtimes, and write docs/scaling.md's tables anew: 15 minutes; BENCH_QUICK=1: 3
	@$(PY) -m bench cluster

bench-strategies: setup ## run the strategies on recorded markets, and write docs/strategies.md's tables and pictures anew
	@$(PY) -m bench.strategies

doctor: setup ## say what this machine has and what is missing
	@$(PY) -m deltabook doctor

release: setup ## build wheel and source archive in dist/, try them in a clean environment, and date the changelog's section
	@scripts/release.sh

lock: setup ## make requirements.lock and those of the image and of Java again
	@scripts/lock.sh

clean: ## remove what tools and runs have left
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist runs artifacts metastore_db spark-warehouse derby.log
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## remove the virtual environment, the caches and the machine code of views as well
	rm -rf .venv .cache
	rm -rf "$${XDG_CACHE_HOME:-$$HOME/.cache}/deltabook/kernels"
