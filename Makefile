# Two commands matter: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready

.PHONY: help demo test lint types pytest oldest coverage fuzz bench results peers studies docs pictures transcript clean

help:            ## show this list
	@grep -E '^[a-z]+: .*##|^[a-z]+:  *##' $(MAKEFILE_LIST) | sed 's/:.*## */\t/'

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

demo: $(READY)   ## train four models on bundled data, print a table, draw the label tree
	$(BIN)/colabel demo

test: lint types pytest ## everything that guards the project

lint: $(READY)   ## ruff, the order of the rooms, and their ceilings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python -m benchmarks.code_lines

types: $(READY)  ## mypy, strict
	$(BIN)/mypy

# Two processes with one thread each. A process keeps to its half of the files, whose fixtures are
# then made once, and takes tests of the other at the end.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

pytest: $(READY) ## tests and doctests
	$(PYTEST)

# The lower bounds of pyproject.toml, in an environment of their own.
OLDEST := .venv-oldest
$(OLDEST)/.ready: pyproject.toml
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	grep -oE '"[a-z0-9-]+>=[0-9.]+"' pyproject.toml | sed -E 's/"(.*)>=(.*)"/\1==\2.*/' > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(OLDEST)/constraints.txt -e '.[report,studies]' hypothesis mpmath networkx pytest
	touch $@

# not tests/golden: the forests of another scikit-learn are other forests
OLDEST_TESTS := tests/cli/test_cli.py tests/joint tests/labels tests/metrics tests/saving tests/tables
oldest: $(OLDEST)/.ready ## answers, files and tables with the oldest packages that are supported
	OMP_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest -q $(OLDEST_TESTS)

coverage: $(READY) ## the same, with the lines that no test reaches (half as long again)
	$(PYTEST) --cov --cov-report=term:skip-covered

FUZZ_SECONDS ?= 600
fuzz: $(READY)   ## changed model files, tables and plans, other ones each time (FUZZ_SECONDS=600)
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

bench: $(READY)  ## speed against peers, as ratios in one run
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.stream --rows 100000 200000
	$(BIN)/python -m benchmarks.field
	$(BIN)/python -m benchmarks.cdn --only speed

results: $(READY) ## ten-fold figures beside the published ones (needs COLABEL_DATA)
	$(BIN)/python -m benchmarks.accuracy
	$(BIN)/python -m benchmarks.chains
	$(BIN)/python -m benchmarks.cdn --only accuracy
	$(BIN)/python -m benchmarks.neighbours
	$(BIN)/python -m benchmarks.crf
	$(BIN)/python -m benchmarks.generative
	$(BIN)/python -m benchmarks.lds
	$(BIN)/python -m benchmarks.wide

PEERS := .venv-peers
BOOMER := .venv-boomer
$(PEERS)/.ready: pyproject.toml constraints.txt benchmarks/peers/requirements.txt
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r benchmarks/peers/requirements.txt -e .
	touch $@

# Without BOOMER the tables say so.
$(BOOMER)/.ready: benchmarks/peers/requirements-boomer.txt
	test -x $(BOOMER)/bin/python || $(PYTHON) -m venv $(BOOMER)
	-$(BOOMER)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers/requirements-boomer.txt && touch $@

PEERS_JOBS ?= 2
peers: $(PEERS)/.ready $(BOOMER)/.ready ## all methods of the field and ours on the same folds; resumes (needs COLABEL_DATA)
	$(PEERS)/bin/python -m benchmarks.peers run --jobs $(PEERS_JOBS)
	$(PEERS)/bin/python -m benchmarks.peers table

studies: $(READY) ## the papers' tables, RESULTS.md and docs/results (needs COLABEL_DATA; hours)
	$(BIN)/python -m studies run all
	$(BIN)/python -m studies report

$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $(DOCS_READY)

docs: $(DOCS_READY) ## the site, in docs/_build/html; runs the lessons, fetches nothing
	$(BIN)/python -m sphinx -W --keep-going -q -b html -d docs/_build/doctrees docs docs/_build/html
	@echo "The site is docs/_build/html/index.html."

pictures: $(READY) ## run the Python of the guide's pages and draw what it makes
	$(BIN)/python docs/pictures.py

transcript: $(READY) ## type the commands that the pages show again, and write down what they print
	$(BIN)/python docs/transcript.py

clean:           ## forget the environment and caches
	rm -rf $(VENV) $(PEERS) $(BOOMER) $(OLDEST) .mypy_cache .pytest_cache .ruff_cache .coverage htmlcov docs/_build docs/lessons docs/api/generated
