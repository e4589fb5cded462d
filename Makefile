# Every target sets up the environment .venv by itself when it is missing or out of date.
#   make test UV=            use venv and pip even where uv is installed
#   make test PYTHON=...     use this interpreter
#   make test WORKERS=0      in one process; by default one more than there are processors
#   make test FRESH=1        compile everything anew, not what earlier runs have kept
#   make quick BASE=main     the commit to compare with
#   make trials RECORD=...   the file in which its figures are kept

UV ?= $(shell command -v uv 2>/dev/null)
PYTHON ?=
WORKLOAD ?= W1a
THREADS ?= 1

# <wheels:projects>
PROJECTS := $(wildcard kits/*/pyproject.toml) $(wildcard plugins/*/*/pyproject.toml) $(wildcard testing/*/pyproject.toml) $(wildcard meta/*/pyproject.toml)
# </wheels:projects>

BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
STAMP := .venv/.up-to-date
DEMO := .venv/.demo-up-to-date
SETUP := pyproject.toml constraints.txt tools/setup.sh tools/wheels.py $(PROJECTS)
PYTEST_ARGS ?=
# One more than there are processors: some tests wait for processes that are to be killed.
WORKERS ?= $(shell n=$$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN); echo $$((n + 1)))
FRESH ?=
BASE ?= main
PORTABLE ?= kits/engines plugins/engines/cpu \
	$(wildcard $(addprefix plugins/*/*/tests/,test_contract.py test_recipe.py))
N ?= 20
RECORD ?= trials.jsonl
ROOM ?= tests/plan
FILES ?= cntk_core/plan/
EVERY ?= 4
SEED ?= $(shell date +%Y%m%d)
export FRESH
# Tests start hundreds of processes, each of which would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE
PYTEST = $(BIN)/python -m pytest --numprocesses $(WORKERS) --maxprocesses 8 --dist worksteal $(PYTEST_ARGS)

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick portable nightly trials mutants survey fuzz lint format types imports docs api lists wheels kernels dist rehearsal releasing check bench pin notebooks site hooks changes release clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

$(STAMP): $(SETUP)
	@UV='$(UV)' PYTHON='$(PYTHON)' tools/setup.sh
	@touch $(DEMO) $@

# What the demo needs is a fifth of what tests need. Where all is there, the demo needs no more.
$(DEMO): $(SETUP)
	@UV='$(UV)' PYTHON='$(PYTHON)' tools/setup.sh cntk-tool-demo
	@touch $@

setup: $(STAMP) ## make the environment .venv

demo: $(DEMO) ## train a recipe on real handwritten digits
	$(BIN)/cntk demo

test: $(STAMP) ## run all tests
	$(PYTEST)

quick: $(STAMP) ## run the quick tests that concern what changed since BASE
	@tests=$$($(BIN)/python tools/concerned.py --base $(BASE)) || exit; \
	if [ -z "$$tests" ]; then echo "no test is concerned by what changed since $(BASE)"; exit; fi; \
	echo "concerned:" $$tests; $(PYTEST) --tier quick $$tests

portable: $(STAMP) ## run the quick tests of what has a portable path without llvmlite and oneDNN
	$(PYTEST) --tier quick -p tests.portable $(PORTABLE)

nightly: $(STAMP) ## run all tests there are, compile everything anew, try faults (N=20 SEED=...), fuzz
	FRESH=1 $(PYTEST) --tier thorough
	$(MAKE) mutants
	$(MAKE) fuzz N=20000
	$(MAKE) trials

trials: $(STAMP) ## kill, break and cut trainings, and write the figures into docs/reliability.md (hours)
	$(BIN)/python tools/trials all --record $(RECORD)

mutants: $(STAMP) ## see whether the tests notice N faults drawn with SEED
	$(BIN)/python tools/mutants.py --count $(N) --seed $(SEED)

survey: $(STAMP) ## list the faults in FILES that the tests of one room do not notice (ROOM=tests/plan FILES=cntk_core/plan/ EVERY=4)
	$(BIN)/python tools/survey.py $(ROOM) --files $(FILES) --every $(EVERY) --seed $(SEED)

fuzz: $(STAMP) ## feed N inputs of each format and language to what reads them (N=20000 SEED=...)
	$(BIN)/python tools/fuzz.py --inputs $(N) --seed $(SEED)

lint: $(STAMP) ## check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP) ## bring style and format in order
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .

types: $(STAMP) ## check types
	$(BIN)/mypy

imports: $(STAMP) ## check who imports whom
	$(BIN)/lint-imports

docs: $(STAMP) ## check the documentation, and what the doors promise
	$(BIN)/python tools/check_docs.py
	$(BIN)/python tools/api.py --check

api: $(STAMP) ## write the reference of the plugin interface anew
	$(BIN)/python tools/api.py

lists: $(STAMP) ## check that the lists of wheels are up to date
	$(BIN)/python tools/wheels.py --check

wheels: ## write the lists of wheels anew, after a wheel has come, gone or changed
	$(or $(PYTHON),python3) tools/wheels.py

kernels: $(STAMP) ## compile the kernels that wheels ship, before they are built
	$(BIN)/python tools/ship_kernels.py

dist: kernels releasing ## build all wheels and source distributions into dist/, with the kernels that they ship
	$(BIN)/python tools/release.py build
	$(BIN)/python tools/release.py check
	$(BIN)/python tools/ship_kernels.py --check dist

rehearsal: dist ## build a release, build it again, and try it with each Python: everything but uploading
	for step in same alone together bill; do $(BIN)/python tools/release.py $$step || exit; done

releasing: $(STAMP)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group release

check: lint types imports docs lists ## all checks that are not tests

bench: $(STAMP) ## compare with other toolkits (WORKLOAD=W1a THREADS=1)
	$(BIN)/python benchmarks/run.py --workload $(WORKLOAD) --threads $(THREADS)

notebooks: $(STAMP) ## run all notebooks with a kernel and make pages of them in build/notebooks
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group notebooks
	$(BIN)/python tools/notebooks.py --html build/notebooks

site: $(STAMP) ## build the site of the documentation into build/site
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "the site is build/site/index.html"

hooks: $(STAMP) ## run the quick checks before each commit
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group hooks
	$(BIN)/pre-commit install

changes: $(STAMP) ## show what CHANGELOG.md will say of changes/
	$(BIN)/towncrier build --draft --version next

release: $(STAMP) ## write VERSION=0.2.0 into all wheels, and move changes/ to CHANGELOG.md
	$(BIN)/python tools/release.py version $(VERSION)

pin: ## write constraints.txt anew with today's versions (needs uv)
	UV='$(UV)' PYTHON='$(PYTHON)' tools/pin.sh

clean: ## remove the environment and everything that was built
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
