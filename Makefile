# Four commands: run, test, check, bench. Each makes what it needs and needs only python3 with venv.

PYTHON ?= python3
VENV   := .venv
FRESH  := /tmp/nekro-fresh
SYNAPSE := .venv-synapse
ASTRBOT := .venv-astrbot
LANGBOT := .venv-langbot
FOLLOWS := .venv-follows
MUTMUT  := .venv-mutants
DOCS    := .venv-docs
PYTHON312 ?= python3.12
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check

# Images of containers often forbid Python to keep what it compiled: then each start compiles all of
# the bot, and each test run all tests, anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help run chat docs doctor kit wheel image test test-python fresh long slow check format pictures follows follows-judge bench compare mutants crash upgrade soak year peers attack stdlib platforms synapse telegram-peer koishi clean

help:
	@echo "make run      start the bot; prints the address of its page"
	@echo "make chat     talk to it in this terminal"
	@echo "make doctor   what works on this machine, what does not, how to mend it"
	@echo "make kit      the environment for writing plugins: docs/plugins.md"
	@echo "make wheel    dist/nekro_core-VERSION-py3-none-any.whl, for pipx, uvx and pip"
	@echo "make image    the container image nekro-core (BASE=python:3.12-slim-bookworm EXTRAS=postgres,cluster)"
	@echo "make test     the test suite, in a few minutes"
	@echo "make long     the rest: containers, every attack, a broken world, whole programs, the real model"
	@echo "make slow     more of the same: what takes longest and fails least; not in CI"
	@echo "make check    format, lint, types, import contracts"
	@echo "make bench    speed and memory beside their physical floor"
	@echo "make compare  the same of an older commit (BASE=e6237b0) and of this code, in turn"
	@echo "make peers    the same questions to this bot, AstrBot and LangBot; half an hour, 2.5 GB of disk"
	@echo "make attack   every attack on boxes, long: reported, fuzzed, 1,000 boxes made and destroyed"
	@echo "make soak     an hour of 50 messages a second in 500 chats (MINUTES=60)"
	@echo "make year     a year of a group of 12 people: does the memory stay within its bounds?"
	@echo "make mutants  small faults in the most important modules: which does no test notice? 30 minutes"
	@echo "make pictures the pictures of the console in docs/images/console; 2 minutes, needs Chromium"
	@echo "make docs     the documentation as a site, in site/"
	@echo "make follows  learn anew to whom a line of a group goes (DATA=FOLDER); make follows-judge"
	@echo "make crash    many kill -9 under load      make koishi   our OneBot peer against Koishi"
	@echo "make upgrade  the data folder of an older commit (FROM=e61814b) opened by this code"
	@echo "make stdlib   the code stream over every module of the standard library"
	@echo "make test-python PYTHON=python3.13  the test suite on another Python, in .venv-3.13"
	@echo "make fresh    make run and make test in a Debian 12 that nobody prepared, with its first"
	@echo "              Python; needs root and debootstrap, 2.5 GB in FRESH=/tmp/nekro-fresh"

run: $(VENV)/.installed
	@$(BIN)/nekro run

chat: $(VENV)/.installed
	@$(BIN)/nekro chat

doctor: $(VENV)/.installed
	@$(BIN)/nekro doctor

kit: $(VENV)/.installed-kit
	@echo "Here now: $(BIN)/nekro plugin new, check, run, install, and pytest for a plugin's tests"

# Needs nothing of the bot's own packages: pip fetches the build backend for itself.
wheel: $(VENV)/.made
	@rm -f dist/nekro_core-*.whl
	@$(PIP) wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

# BASE must have Python 3.11 to 3.13 with venv. CONTAINER=podman works too. IMAGE_ARGS="--network host" reaches
# a package index that only this machine reaches.
image: BASE ?= python:3.12-slim-bookworm
EXTRAS ?= postgres,cluster
IMAGE ?= nekro-core
CONTAINER ?= docker
image:
	$(CONTAINER) build --file deploy/Dockerfile --build-arg BASE=$(BASE) --build-arg EXTRAS=$(EXTRAS) \
	    --tag $(IMAGE) $(IMAGE_ARGS) .
	@$(CONTAINER) image inspect --format '{{.Size}}' $(IMAGE) | \
	    awk '{printf "$(IMAGE): %.0f MB\n", $$1 / 1e6}'

# Three at a time on two cores: much of the suite waits for processes. A file's tests stay together,
# and files keep their order: by size the long ones with a single test would come last, one after the
# other. What is long has whole programs around it, and those two cores for itself.
AT_ONCE := --dist loadfile --no-loadscope-reorder --numprocesses
test: $(VENV)/.installed-dev
	sh scripts/run_tests.sh $(BIN)/pytest -m "not long" $(AT_ONCE) 3 $(ARGS)

# An environment for each version, so that none is made anew when another one is tried.
test-python:
	@sh scripts/preflight.sh $(PYTHON)
	@$(MAKE) --no-print-directory test \
	    VENV=.venv-$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# What is committed, not what lies here: somebody else gets no more than that.
fresh:
	@sh scripts/fresh_root.sh "$(FRESH)"

long: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory synapse || echo "Synapse cannot be had: what needs it is skipped"
	sh scripts/run_tests.sh $(BIN)/pytest -m "long and not slow and not reloads" $(AT_ONCE) 2 $(ARGS)
	# Each of their reloads counts all objects of the process, so that theirs had better be small.
	$(BIN)/pytest -m "reloads and not slow" --numprocesses 2 --dist load $(ARGS) || [ $$? -eq 5 ]

# Not in CI, which has at least one test of each of their subjects.
slow: $(VENV)/.installed-dev
	$(BIN)/pytest -m "slow and not reloads" --numprocesses 2 --dist loadscope $(ARGS)
	$(BIN)/pytest -m "slow and reloads" --numprocesses 2 --dist load $(ARGS) || [ $$? -eq 5 ]

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.installed-dev
	$(BIN)/python -m bench $(ARGS)

compare: BASE ?= e6237b0
compare: $(VENV)/.installed-dev
	$(BIN)/python -m bench.compare $(BASE) $(ARGS)

# Resumable; ARGS="split ledger" tries two modules, ARGS=--show prints what is known.
mutants: $(VENV)/.installed-dev $(MUTMUT)/.installed
	$(BIN)/python -m tests.mutants $(ARGS)

# 500 kills, in rounds of 50: ARGS="--rounds 10 --kills 50", and with --database postgres once more.
crash: $(VENV)/.installed-dev
	$(BIN)/python -m tests.e2e.crash $(ARGS)

FROM ?= e61814b
upgrade: $(VENV)/.installed-dev
	$(BIN)/python -m tests.e2e.upgrade $(FROM) $(ARGS)

year: $(VENV)/.installed-dev
	$(BIN)/python -m tests.memory.year $(ARGS)

MINUTES := 60
soak: $(VENV)/.installed-dev
	$(BIN)/python -m bench.soak --minutes $(MINUTES) $(ARGS)

# Never in CI. ARGS="--runs 1 --only AstrBot" is quicker; on a busy machine no figure means anything.
peers: $(VENV)/.installed-dev $(ASTRBOT)/.installed $(LANGBOT)/.installed
	$(BIN)/python -m bench.peers $(ARGS)

stdlib: $(VENV)/.installed-dev
	STDLIB_SEED=all $(BIN)/pytest tests/agent/turn/test_code_stream.py $(ARGS)

# Installs and loads every adapter that uniseg knows; then WRITE_DOCS=1 make test ARGS=-kplatforms_page
platforms:
	python3 scripts/platforms/try_all.py python3.11 python3.12

# Learns to whom a line of a group goes (docs/decisions/0042-taking-part.md): DATA is the unpacked folder
# "data" of github.com/jkkummerfeld/irc-disentanglement. About ten minutes on an idle machine.
DATA ?= data/irc-disentanglement
follows: $(FOLLOWS)/.installed
	PYTHONPATH=. $(FOLLOWS)/bin/python scripts/follows/learn.py $(DATA) $(ARGS)
	@$(MAKE) --no-print-directory follows-judge DATA=$(DATA)/dev

# How good that is, on a folder of such conversations.
follows-judge: $(FOLLOWS)/.installed
	PYTHONPATH=. $(FOLLOWS)/bin/python scripts/follows/judge.py $(DATA)

# The documentation as a site; TARGET is its folder. Read it with: python3 -m http.server -d site
TARGET := site
docs: $(DOCS)/.installed
	PYTHONPATH=. $(DOCS)/bin/python -m scripts.docs_site.build $(TARGET)

# Opens every page of the console in Chromium, in a bot whose chats are invented.
pictures: $(VENV)/.installed-dev
	$(BIN)/python -m tests.console.pictures $(ARGS)

# Led by coverage where atheris is installed (pip install atheris).
SECONDS := 60
attack: $(VENV)/.installed-dev
	$(BIN)/python -m tests.sandbox.attacks $(ARGS)
	$(BIN)/python -m tests.sandbox.attacks.fuzz $(SECONDS)
	$(BIN)/python -m tests.sandbox.jail.leftovers 1000
	$(BIN)/python -m tests.sandbox.docker.leftovers 100

# A real Matrix homeserver for the tests, in an environment of its own: what it needs is not ours.
synapse: $(SYNAPSE)/.installed

telegram-peer: $(VENV)/.installed-dev
	$(BIN)/python -m tests.peers.telegram.relay

koishi: $(VENV)/.installed-dev
	cd tests/peers/koishi && npm install --no-audit --no-fund --no-package-lock
	$(BIN)/pytest tests/peers/koishi $(ARGS)

# Only its operators are used, so its environment has nothing else; held to one version, since another
# one would draw other mutants.
$(MUTMUT)/.installed:
	@echo "Installing mutmut, which knows how to change programs (75 MB, once) ..."
	@$(PYTHON) -m venv $(MUTMUT)
	@$(MUTMUT)/bin/python -m pip --disable-pip-version-check install --quiet "mutmut==3.8.1"
	@touch $@

# Held to one version: Zensical is young, and from 0.0.74 on it needs a package zensical-ui, which not
# every index has.
$(DOCS)/.installed:
	@echo "Installing Zensical, which builds the site of the documentation (once) ..."
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip --disable-pip-version-check install --quiet "zensical==0.0.73"
	@touch $@

$(FOLLOWS)/.installed:
	@echo "Installing LightGBM and scikit-learn, with which the bot's decisions are learnt (once) ..."
	@$(PYTHON) -m venv $(FOLLOWS)
	@$(FOLLOWS)/bin/python -m pip --disable-pip-version-check install --quiet "lightgbm>=4.5,<5" "scikit-learn>=1.5,<2" "numpy>=2"
	@touch $@

clean:
	rm -rf $(VENV) .venv-3.* .mutants $(SYNAPSE) $(ASTRBOT) $(LANGBOT) $(MUTMUT) $(FOLLOWS) $(DOCS) site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# An environment remembers its own folder and its Python; one that was moved must be made again. Only
# said here: what a person has in it is theirs to throw away.
ifneq ($(wildcard $(VENV)/.made),)
ifneq ($(filter-out clean help,$(or $(MAKECMDGOALS),help)),)
STALE := $(shell sh scripts/stale.sh $(VENV))
$(if $(STALE),$(error $(STALE)))
endif
endif

$(VENV)/.made: scripts/preflight.sh
	@sh scripts/preflight.sh $(PYTHON)
	@echo "Making the environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml
	@echo "Installing nekro-core and what it needs (about 690 MB, once) ..."
	@$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/.installed-kit: $(VENV)/.installed
	@$(PIP) install --quiet --editable ".[kit]"
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "Installing what tests and checks need ..."
	@$(PIP) install --quiet --editable ".[dev]"
	@touch $@

$(SYNAPSE)/.installed:
	@echo "Installing Synapse for the tests of Matrix (about 240 MB, once) ..."
	@$(PYTHON) -m venv $(SYNAPSE)
	@$(SYNAPSE)/bin/python -m pip --disable-pip-version-check install --quiet "matrix-synapse>=1.163,<2"
	@touch $@

# Programs under the AGPL and the Apache licence, beside which ours is run: nothing of them is ours.
$(ASTRBOT)/.installed:
	@echo "Installing AstrBot, for a comparison (once; it wants Python 3.12 or later: PYTHON312=...) ..."
	@$(PYTHON312) -m venv $(ASTRBOT)
	@$(ASTRBOT)/bin/python -m pip --disable-pip-version-check install --quiet "astrbot==4.29.1"
	@touch $@

$(LANGBOT)/.installed:
	@echo "Installing LangBot, for a comparison (once) ..."
	@$(PYTHON) -m venv $(LANGBOT)
	@$(LANGBOT)/bin/python -m pip --disable-pip-version-check install --quiet "langbot==4.10.11"
	@touch $@
